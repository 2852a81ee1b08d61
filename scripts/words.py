#!/usr/bin/env python3
"""Words that a reader stops at, in texts and comments: help, messages and tables of the crates, their comments, the page, README.md, docs.
Lines of the crates' comments that are too wide.

words.py [FOLDER] prints `file:line: error: "word": say …`, one a line, and ends with 0: scripts/style.sh collects what it prints.
Names and quoted output are not checked, nor docs/reference/json, which is generated from the crates' comments.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from house import rust

# A pattern, and what a kernel engineer says instead. The first that fits names the finding.
WORDS = [
    (r"cannot be told", "inconclusive"),
    (r"recorded again on", "rebuilt, recorded in QEMU, costed for"),
    (r"tells?|told|telling", "reports, shows, names, or distinguishes"),
    (r"whoever", "who, or the function"),
    (r"so many", "that many"),
    # "There is no file" is plain; "it is no file" is not.
    (r"(?<!there )(?:is|are|was|were) no(?= (?!more\b|less\b|\w+er\b))", "is not a"),
    (r"besides", "also"),
    (r"beside", "with, next to, and, or against"),
    (r"in vain", "failed"),
    (r"dear|dearer|dearest", "expensive"),
    (r"at hand", "available, or this"),
    (r"stands?|stood", "is"),
    (r"lies|lain", "is at"),
    (r"is asked for|asked about", "what it is: the type, the function"),
    (r"(?:takes?|taken|took) along", "copied"),
    (r"made-up", "synthetic"),
    (r"look(?:s|ed|ing)? for", "search for, or find"),
    (r"seldom", "rarely"),
    (r"(?:goes|go|went|gone) on(?! (?:a|the|its|as few) )", "continues"),
    (r"(?:gives|gave|given) back", "returns, or frees"),
    (r"works? out|worked out", "computes"),
    (r"under way", "open, outstanding, or in flight"),
    (r"told apart|tells? apart", "distinguished"),
]
PATTERN = re.compile("|".join(rf"(?P<w{i}>\b(?:{word})\b)" for i, (word, _) in enumerate(WORDS)), re.IGNORECASE)
SCRIPT = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<text>"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`)""",
    re.DOTALL,
)
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
# A name in `{…}` of a format is the program's, not the user's.
PLACEHOLDER = re.compile(r"\{[^{}\n]*\}")
QUOTED = re.compile(r"`[^`\n]*`")
# Where a link leads is a name.
TARGET = re.compile(r"\]\([^()\n]*\)")

COLUMNS = 100
COMMENT = re.compile(r"\s*//[/!]? *(?P<text>.*)")


def blank(match: re.Match[str]) -> str:
    """Spaces in the place of a text, so that lines stay."""
    return re.sub(r"[^\n]", " ", match.group(0))


def findings(text: str, start: int, whole: str) -> Iterator[tuple[int, str]]:
    """The words of `text`, which is at `start` of a file: line and message. A literal may continue on further lines."""
    joined = re.sub(r"\\\n\s*|\n\s*(?:/// )?", blank, text)
    for match in PATTERN.finditer(joined):
        say = next(WORDS[int(name[1:])][1] for name, hit in match.groupdict().items() if hit)
        yield whole.count("\n", 0, start + match.start()) + 1, f'"{match.group(0)}": say {say}'


def without_tests(text: str) -> str:
    """The text with spaces in the place of its test modules."""
    code = rust.blanked(text)
    for match in rust.TEST_MODULE.finditer(code):
        end = rust.closing(code, match.end() - 1)
        text = text[: match.start()] + re.sub(r"[^\n]", " ", text[match.start() : end]) + text[end:]
    return text


def of_crate(path: Path) -> Iterator[tuple[int, str]]:
    """Of a file of a crate: its literals outside tests."""
    whole = path.read_text(encoding="utf-8")
    code = without_tests(whole)
    for match in rust.TOKEN.finditer(code):
        if match["string"] or match["raw"]:
            yield from findings(PLACEHOLDER.sub(blank, match.group(0)), match.start(), whole)


def of_comments(path: Path) -> Iterator[tuple[int, str]]:
    """Of a file of a crate, tests too: its comments."""
    whole = path.read_text(encoding="utf-8")
    for match in rust.TOKEN.finditer(whole):
        if match["line"]:
            yield from findings(QUOTED.sub(blank, match.group(0)), match.start(), whole)


def too_wide(path: Path) -> Iterator[tuple[int, str]]:
    """Of a file of a crate: lines of comments that are too wide. Tables and pictures are as wide as they have to be."""
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        comment = COMMENT.fullmatch(line)
        text = comment["text"] if comment else ""
        fenced = comment is not None and fenced != text.startswith("```")
        if len(line) > COLUMNS and text and not fenced and not text.startswith("|"):
            yield number, f"the comment has {len(line)} columns, {COLUMNS} are the most"


def of_page(path: Path) -> Iterator[tuple[int, str]]:
    """Of a file of the page: its literals."""
    whole = path.read_text(encoding="utf-8")
    for match in SCRIPT.finditer(whole):
        if match["text"]:
            yield from findings(match["text"], match.start(), whole)


def of_document(path: Path) -> Iterator[tuple[int, str]]:
    """Of a document: its prose, without what is quoted."""
    whole = path.read_text(encoding="utf-8")
    yield from findings(TARGET.sub(blank, QUOTED.sub(blank, FENCED.sub(blank, whole))), 0, whole)


def is_test(path: Path) -> bool:
    """Whether users never meet the file's texts."""
    return "tests" in path.parts or path.stem == "tests" or path.stem.endswith("_tests") or "testkit" in path.parts


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[1])
    kinds = [
        (of_crate, sorted(path for path in root.glob("crates/*/src/**/*.rs") if not is_test(path.relative_to(root)))),
        (of_page, sorted(root.glob("web/src/*.ts"))),
        (of_comments, sorted(root.glob("crates/**/*.rs"))),
        (too_wide, sorted(root.glob("crates/**/*.rs"))),
        (of_document, [path for path in [root / "README.md", root / "ARCHITECTURE.md", *sorted(root.glob("docs/*/*.md"))] if path.is_file()]),
    ]
    for find, paths in kinds:
        for path in paths:
            for line, message in find(path):
                print(f"{path.relative_to(root)}:{line}: error: {message}")


if __name__ == "__main__":
    main()
