#!/usr/bin/env python3
"""The rules of this project's documents. Prints `file:line: error: what` for whatever breaks one; scripts/style.sh runs it.

    scripts/docs.py [FOLDER]     (default: this checkout)

* Relative links of every Markdown file lead to a file, and to a heading where they name one; a document of docs/ or evidence/
  that any file mentions is there.
* Prose has at most 100 columns. Tables, pictures, code blocks and what has no space to break at are no prose; what
  `linemate case` writes and CHANGELOG.md, whose entries are lines, stay as they are.
* Files of docs/guide/ and README.md have at most 120 lines, ARCHITECTURE.md 150.
* None of those, and nothing else in docs/, has a date: measurements are in evidence/.
* Each document of docs/ is in docs/README.md, each crate in ARCHITECTURE.md, below the crates that it uses.
* What docs/ and ARCHITECTURE.md name of the code, as `crate::name` or `crate/src/file.rs`, is there.
* A page of docs/findings/ has each row of FINDING, and says how to measure it.
* A figure of README.md, docs/guide/, docs/model/ or docs/findings/ is in a file of evidence/ or cases/ that the same document links to. A figure
  is a number with a unit of UNITS, with its interval if it has one, outside of code blocks and of `code`: a setting or an example
  is written as code.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from os import chdir
from pathlib import Path

# This file and the test of its rules mention files that do not exist.
MENTIONING = ("*.md", "*.rs", "*.c", "*.sh", "*.py", "*.toml", "*.yaml", "*.ts", "Makefile", ":!scripts/test-style.sh")
COLUMNS = 100
GUIDE_LINES = 120
UNWRAPPED = ("results.md", "CHANGELOG.md")
LINES = {"README.md": GUIDE_LINES, "ARCHITECTURE.md": 150}
UNITS = "%|ms|s|min|seconds|minutes|hours|KiB|MiB|GiB|kB|MB|GB|M/s|cycles|points|million|M accesses"
# 95 % is how sure an interval is, 100 % is all.
NOT_MEASURED = {("95", "%"), ("100", "%")}

Rule = Callable[[Path], Iterator[tuple[int, str]]]

# What a maintainer has to know about a finding: the beginnings of its table's rows.
FINDING = ("field", "neighbours", "writers", "readers", "change", "downside", "rebuilt", "replayed", "not shown")

NUMBER = r"\d[\d,]*(?:\.\d+)?"
QUANTITY = rf"{NUMBER}(?: ± {NUMBER})?"
FIGURE = re.compile(rf"(?<![\w.,-])((?:{NUMBER}(?: ?(?:±|/|to|and|or) ?[-+−]?)?)*{NUMBER}) ?({UNITS})(?!\w)")
LINK = re.compile(r"\[[^\]\[]*(?:\[[^\]]*\][^\]\[]*)*\]\(([^)\s]+)\)")
DATE = re.compile(r"\b20\d\d-\d\d(-\d\d)?\b")
# A code span continues over the end of a line, not over an empty one.
CODE = re.compile(r"(`+)(?!`)((?:(?!\n\s*\n).)*?)(?<!`)\1(?!`)", re.DOTALL)
MENTION = re.compile(r"(?<![\w./-])(?:docs|evidence)/[\w./-]*\w\.md")
ITEM = re.compile(r"(?:linemate_)?([a-z]+)(?:::\w+)*::(\w+)(?:\(\))?")
SOURCE = re.compile(r"[\w./-]+/[\w.-]+\.(?:rs|sh|py|c|toml|jq|awk|ts|sql|yaml)")
FENCE = re.compile(r"^\s*(```+|~~~+)")


@dataclass(frozen=True)
class Line:
    """A line outside of code blocks."""

    number: int
    text: str
    # Without what is code.
    plain: str


class Document:
    """A Markdown file."""

    def __init__(self, path: Path) -> None:
        self.length = 0
        self.lines: list[Line] = []
        if path.is_file():
            self._read(path.read_text(encoding="utf-8").splitlines())

    def _read(self, texts: list[str]) -> None:
        fence, kept = None, []
        for text in texts:
            mark = FENCE.match(text)
            kept.append("" if mark or fence else text)
            if mark and fence is None:
                fence = mark[1]
            elif mark and mark[1].startswith(fence):
                fence = None
        plain = CODE.sub(lambda code: "`" + "\n" * code[0].count("\n"), "\n".join(kept)).split("\n")
        self.length = len(texts)
        self.lines = [Line(*line) for line in zip(range(1, len(kept) + 1), kept, plain) if line[1]]

    def links(self) -> Iterator[tuple[int, str]]:
        """Targets inside of the repository, with their lines."""
        for line in self.lines:
            for target in LINK.findall(line.plain):
                if not re.match(r"[a-z]+:", target):
                    yield line.number, target

    def anchors(self) -> set[str]:
        """What links to headings are called."""
        found: set[str] = set()
        for line in self.lines:
            heading = re.match(r"#+ +(.*)", line.text)
            if heading:
                name = slug(heading[1])
                same = sum(anchor == name or re.fullmatch(rf"{re.escape(name)}-\d+", anchor) is not None for anchor in found)
                found.add(f"{name}-{same}" if same else name)
        return found


def slug(heading: str) -> str:
    """A heading's anchor, as GitHub makes it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@cache
def document(path: Path) -> Document:
    return Document(path)


def files(*patterns: str) -> list[Path]:
    """Files of the project, new ones too, ignored ones not."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    return [path for path in map(Path, sorted(set(filter(None, listed)))) if path.is_file()]


def quotes(path: Path) -> bool:
    """Does it quote what was measured?"""
    return is_guide(path) or path.is_relative_to("docs/model") or path.is_relative_to("docs/findings")


def is_guide(path: Path) -> bool:
    return path == Path("README.md") or path.is_relative_to("docs/guide")


def target_of(path: Path, target: str) -> Path:
    """The file or folder that a link leads to, from the repository's root."""
    name = target.split("#")[0]
    return Path(resolved(path.parent / name)) if name else path


def resolved(path: Path) -> str:
    """A path without `..`."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts) or "."


def broken_links(path: Path) -> Iterator[tuple[int, str]]:
    for number, target in document(path).links():
        leads_to = target_of(path, target)
        anchor = target.partition("#")[2]
        if not leads_to.exists():
            yield number, f"the link leads nowhere: {target}"
        elif anchor and leads_to.suffix == ".md" and anchor not in document(leads_to).anchors():
            yield number, f"{leads_to} has no heading #{anchor}"


def missing_mentions(path: Path) -> Iterator[tuple[int, str]]:
    for number, text in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        for name in MENTION.findall(text):
            if not Path(name).is_file():
                yield number, f"there is no {name}"


def wide_prose(path: Path) -> Iterator[tuple[int, str]]:
    for line in document(path).lines:
        begin = re.match(r"[\s>]*([-*#]+|\d+\.)?\s*", line.text)
        breakable = " " in line.text[begin.end() if begin else 0:]
        if len(line.text) > COLUMNS and breakable and not line.text.lstrip().startswith(("|", "![")):
            yield line.number, f"the line has {len(line.text)} columns, {COLUMNS} are the most in prose"


def too_long(path: Path) -> Iterator[tuple[int, str]]:
    most = LINES.get(str(path), GUIDE_LINES)
    length = document(path).length
    if length > most:
        yield length, f"the document has {length} lines, {most} are the most"


def dates(path: Path) -> Iterator[tuple[int, str]]:
    for line in document(path).lines:
        if DATE.search(line.plain):
            yield line.number, "a date: when something was measured belongs into evidence/"


def unlisted(path: Path) -> Iterator[tuple[int, str]]:
    index = Path("docs/README.md")
    if path != index and path not in {target_of(index, target) for _, target in document(index).links()}:
        yield 1, f"{index} does not link to it"


@cache
def evidence(path: Path) -> frozenset[str]:
    """All numbers that the documents below a path have, with their intervals and without."""
    files = [path] if path.is_file() else sorted(path.rglob("*.md"))
    texts = [file.read_text(encoding="utf-8") for file in files]
    return frozenset(number for text in texts for form in (NUMBER, QUANTITY) for number in re.findall(form, text))


def unproven(path: Path) -> Iterator[tuple[int, str]]:
    linked = {target_of(path, target) for _, target in document(path).links()}
    sources = [source for source in sorted(linked) if source.parts[:1] in (("evidence",), ("cases",)) and source.exists()]
    known = frozenset().union(*(evidence(source) for source in sources))
    for line in document(path).lines:
        for numbers, unit in FIGURE.findall(re.sub(r"\]\([^)]*\)", "]", line.plain)):
            for number in re.findall(QUANTITY, numbers):
                if (number, unit) not in NOT_MEASURED and number not in known:
                    yield line.number, f"{number} {unit} is in no file of evidence/ or cases/ that this document links to"


def incomplete(path: Path) -> Iterator[tuple[int, str]]:
    texts = [line.text for line in document(path).lines]
    for row in FINDING:
        if not any(re.match(rf"\| {row}\b[^|]* \| [^|]*\w", text) for text in texts):
            yield 1, f"a finding's page has a row for {row}"
    if not any(text.startswith("**Measure**: ") for text in texts):
        yield 1, "a finding's page says how to measure it (**Measure**: …)"


@cache
def declared(crate: str) -> frozenset[str]:
    """Everything that a crate's sources declare, modules too."""
    texts = (file.read_text(encoding="utf-8") for file in Path("crates", crate, "src").rglob("*.rs"))
    return frozenset(name for text in texts for name in re.findall(r"\b(?:mod|struct|enum|trait|fn|type|const) (\w+)", text))


def stale_names(path: Path) -> Iterator[tuple[int, str]]:
    for line in document(path).lines:
        for code in re.findall(r"`([^`]+)`", line.text):
            item = ITEM.fullmatch(code)
            if item and Path("crates", item[1]).is_dir() and item[2] not in declared(item[1]):
                yield line.number, f"the crate {item[1]} has no {item[2]}"
            places = (Path(code), Path("crates", code), path.parent / code)
            if SOURCE.fullmatch(code) and not any(place.exists() for place in places):
                yield line.number, f"there is no {code}"


def crates(path: Path) -> Iterator[tuple[int, str]]:
    """ARCHITECTURE.md has each crate once, below all that it uses."""
    first: dict[str, int] = {}
    for line in document(path).lines:
        row = re.match(r"\| `([a-z]+)` \|", line.text)
        if row:
            first.setdefault(row[1], line.number)
    for manifest in files("crates/*/Cargo.toml"):
        crate = manifest.parent.name
        if crate not in first:
            yield 1, f"it does not say what the crate {crate} holds"
            continue
        plain = re.sub(r"\[dev-dependencies\].*?(?=^\[|\Z)", "", manifest.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for used in re.findall(r"^linemate-([a-z]+)\b", plain, re.MULTILINE):
            if first.get(used, 0) > first[crate]:
                yield first[crate], f"{crate} uses {used}, which is below it"


def rules_of(path: Path) -> list[Rule]:
    """What a Markdown file is held to."""
    in_docs = path.is_relative_to("docs")
    is_bounded = is_guide(path) or str(path) in LINES
    applies = {
        broken_links: True,
        wide_prose: path.name not in UNWRAPPED and not path.is_relative_to("crates"),
        too_long: is_bounded,
        dates: in_docs or is_bounded,
        unlisted: in_docs,
        unproven: quotes(path),
        incomplete: path.is_relative_to("docs/findings") and path.name != "README.md",
        crates: path == Path("ARCHITECTURE.md"),
        stale_names: in_docs or path == Path("ARCHITECTURE.md"),
    }
    return [rule for rule, holds in applies.items() if holds]


def errors() -> Iterator[str]:
    checks = [(path, missing_mentions) for path in files(*MENTIONING)]
    checks += [(path, rule) for path in files("*.md") for rule in rules_of(path)]
    for path, rule in checks:
        yield from (f"{path}:{line}: error: {what}" for line, what in rule(path))


if __name__ == "__main__":
    chdir(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1])
    for error in errors():
        print(error)
