"""The table of docs/internals/house.md: its column `now` is what the tree gives, all others are written by hand."""

import re
from pathlib import Path

Rows = list[tuple[str, str]]
COLUMN = "now"


class Missing(Exception):
    """A measure that the document has no row for, or no column."""


def filled(text: str, measured: Rows) -> str:
    """The document with each measure in its row."""
    lines = text.split("\n")
    head = next((line for line in lines if line.startswith("| figure |")), None)
    if head is None or COLUMN not in cells(head):
        raise Missing(f"it has no table `| figure |` with a column `{COLUMN}`")
    at = cells(head).index(COLUMN)
    for name, value in measured:
        row = next((number for number, line in enumerate(lines) if cells(line)[:1] == [name]), None)
        if row is None:
            raise Missing(f"it has no row `{name}`")
        changed = cells(lines[row])
        changed[at] = value
        lines[row] = f"| {' | '.join(changed)} |"
    return "\n".join(lines)


def cells(line: str) -> list[str]:
    """The cells of a table's row; none of other lines."""
    return [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []


def words(files: list[Path]) -> int:
    """Words of documents, as `wc -w` counts them."""
    return sum(len(path.read_text(encoding="utf-8").split()) for path in files)


def wide_lines(files: list[Path], columns: int) -> int:
    """Lines of prose beyond so many columns: not of tables and code blocks."""
    texts = (re.sub(r"^ *```.*?^ *```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE) for path in files)
    return sum(len(line) > columns and not line.lstrip().startswith("|") for text in texts for line in text.split("\n"))
