"""Rust source as this project's measures see it: tokens without strings, functions, types, comments, imports.

A reader of tokens, not of types: macros are not expanded and names are resolved by module, not by scope. That is enough to count lines,
find cycles of files and compare two states of the tree, and needs nothing that a machine with Python lacks.
"""

import re
from dataclasses import dataclass
from pathlib import Path

TOKEN = re.compile(
    r"""
      (?P<line>//[^\n]*)
    | (?P<block>/\*.*?\*/)
    | (?P<raw>\bb?r(?P<hashes>\#*)".*?"(?P=hashes))
    | (?P<string>b?"(?:\\.|[^"\\])*")
    | (?P<char>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[0-9a-fA-F_]+\}|.)|[^'\\\n])')
    """,
    re.VERBOSE | re.DOTALL,
)
FUNCTION = re.compile(r"\bfn\s+(\w+)")
# `type` inside of a block names what another crate's trait asks for (`Output`, `Err`), not a type of this project's.
TYPE = re.compile(
    r"^(?:\s*(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum|union|trait)|(?:\s*pub(?:\([^)]*\))?\s+)?type)\s+(\w+)", re.MULTILINE
)
TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+\w+\s*\{")


@dataclass(frozen=True)
class Function:
    """A function with a body: its name, its lines from `fn` to the closing brace, its parameters as written."""

    name: str
    lines: int
    parameters: str


@dataclass(frozen=True)
class Comments:
    """Lines that are `//` comments of their own or behind code, doc blocks, and how many of these have three words or fewer."""

    lines: int
    doc_blocks: int
    short_doc_blocks: int


def blanked(text: str) -> str:
    """The text with comments and literals replaced by spaces; offsets and lines stay."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group(0))

    return TOKEN.sub(blank, text)


def closing(code: str, opening: int, pair: str = "{}") -> int:
    """The offset behind what closes the bracket at `opening`; the end of the code where nothing does."""
    depth = 0
    for at in range(opening, len(code)):
        if code[at] == pair[0]:
            depth += 1
        elif code[at] == pair[1]:
            depth -= 1
            if depth == 0:
                return at + 1
    return len(code)


def split_tests(text: str) -> tuple[str, int]:
    """The text without its `#[cfg(test)]` modules, and how many lines these have."""
    code = blanked(text)
    lines = 0
    while match := TEST_MODULE.search(code):
        end = closing(code, match.end() - 1)
        lines += code.count("\n", match.start(), end) + 1
        text = text[: match.start()] + text[end:]
        code = code[: match.start()] + code[end:]
    return text, lines


def functions(code: str) -> list[Function]:
    """The functions of blanked code that have bodies."""
    found = []
    for match in FUNCTION.finditer(code):
        at = match.end()
        if at < len(code) and code[at] == "<":
            at = generics_end(code, at)
        opening = code.find("(", at)
        if opening < 0:
            continue
        behind = closing(code, opening, "()")
        body = body_start(code, behind)
        if body is None:
            continue
        end = closing(code, body)
        lines = code.count("\n", match.start(), end) + 1
        found.append(Function(match.group(1), lines, code[opening + 1 : behind - 1]))
    return found


def body_start(code: str, behind: int) -> int | None:
    """The offset of a function's `{` behind its parameters; none where a `;` ends it. The one of `[T; N]` ends nothing."""
    depth = 0
    for at in range(behind, len(code)):
        if code[at] in "[]":
            depth += 1 if code[at] == "[" else -1
        elif code[at] == "{":
            return at
        elif code[at] == ";" and depth == 0:
            return None
    return None


def generics_end(code: str, opening: int) -> int:
    """The offset behind the `>` that closes the `<` at `opening`; `->` closes nothing."""
    depth = 0
    for at in range(opening, len(code)):
        if code[at] == "<":
            depth += 1
        elif code[at] == ">" and code[at - 1] != "-":
            depth -= 1
            if depth == 0:
                return at + 1
    return len(code)


def parameters(text: str) -> list[str]:
    """The parameters of a list, one a string: split at commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in "([{<":
            depth += 1
        elif char in ")]}" or (char == ">" and text[at - 1] not in "-="):
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def takes_tuple(parameter: str) -> bool:
    """Is it `(a, b): (A, B)`, a tuple taken apart in the list?"""
    return re.match(r"\(.*\)\s*:\s*&?\s*(?:mut\s+)?\(", parameter, re.DOTALL) is not None


def types(code: str) -> list[str]:
    """The names of the types that blanked code declares."""
    return TYPE.findall(code)


def comments(text: str) -> Comments:
    """Counts the comments of a text."""
    lines = blocks = short = 0
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        stripped = line.strip()
        if stripped.startswith(("///", "//!")):
            block.append(stripped[3:])
            continue
        if block:
            blocks += 1
            short += len(" ".join(block).split()) <= 3
            block = []
        lines += stripped.startswith("//")
    return Comments(lines, blocks, short)


def sources(crate: Path) -> dict[tuple[str, ...], Path]:
    """The files of a crate's library or program by module path, those of its tests left out."""
    found = {}
    for path in sorted((crate / "src").rglob("*.rs")):
        module = path.relative_to(crate / "src").with_suffix("").parts
        if "tests" in module:
            continue
        if module[-1] in ("lib", "main", "mod"):
            module = module[:-1]
        found.setdefault(module, path)
    return found
