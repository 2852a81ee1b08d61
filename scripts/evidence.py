#!/usr/bin/env python3
"""Makes evidence/README.md, one row per claim, of evidence/claims.toml and of the tables that it names.

    scripts/evidence.py [--check] [FOLDER]     (default: this checkout)

A figure is never typed there: it is a row's cells, a column's least and most, the counts of a column's values, or a quotation
that the document has to have. So a claim that the evidence no longer bears is an error, as is a README.md that is not what
this writes. --check only prints such errors, `file:line: error: what`; scripts/style.sh runs it.
"""

import re
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

HEAD = """# Evidence

What linemate claims, today's figure for it, and the document that has the measurement. Made by
`scripts/evidence.py` from [claims.toml](claims.toml) and the documents, so it cannot differ from
them. *Machine* is the described machine of a replay, or the computer where the figure is a time.
*Commit* is the linemate that gave the figure, or the commit that brought it here.
"""
DOCUMENTS = """
## Documents

Append-only: what was measured stays, with its date. Nothing here was measured on the machines that
replays are of.

| document | about |
|---|---|
"""


class Wrong(Exception):
    """A claim that its document does not bear."""


@dataclass
class Row:
    """A row of a table, by the names of its columns; of columns of one name, the first."""

    cells: list[str]
    columns: list[str]

    def get(self, column: str) -> str:
        if column not in self.columns:
            raise Wrong(f"there is no column {column!r} among {self.columns}")
        return self.cells[self.columns.index(column)]


def plain(cell: str) -> str:
    """A cell without emphasis; of a link, its text."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell.strip().replace("**", ""))


def section(text: str, heading: str) -> tuple[str, str]:
    """The whole heading that begins so, and what is below it up to the next of its rank or a higher one."""
    lines = text.split("\n")
    first = next((at for at, line in enumerate(lines) if line.startswith(heading)), None)
    if first is None:
        raise Wrong(f"there is no heading {heading!r}")
    rank = len(heading) - len(heading.lstrip("#"))
    end = re.compile(rf"#{{1,{rank}}} ")
    last = next((at for at in range(first + 1, len(lines)) if end.match(lines[at])), len(lines))
    return lines[first].lstrip("# "), "\n".join(lines[first + 1:last])


def rows(text: str) -> list[Row]:
    """The rows of all tables of a text."""
    found, columns = [], None
    for line in text.split("\n"):
        if not line.strip().startswith("|"):
            columns = None
            continue
        cells = [plain(cell) for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if columns is None:
            columns = cells
        elif not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            found.append(Row(cells, columns))
    return found


def only_row(text: str, wanted: list[str]) -> Row:
    """The one row that has these cells."""
    found = [row for row in rows(text) if all(cell in row.cells for cell in wanted)]
    if len(found) != 1:
        raise Wrong(f"{len(found)} rows have the cells {wanted}")
    return found[0]


def number(cell: str) -> float:
    found = re.search(r"[-+]?\d+(\.\d+)?", cell.replace("−", "-").replace(",", ""))
    if not found:
        raise Wrong(f"no number in {cell!r}")
    return float(found[0])


def column(text: str, name: str) -> list[str]:
    values = [row.get(name) for row in rows(text) if name in row.columns]
    if not values:
        raise Wrong(f"no table has a column {name!r}")
    return values


def figure(claim: dict, text: str) -> str:
    """What the document says of a claim."""
    form = claim["figure"]
    if "row" in claim:
        row = only_row(text, claim["row"])
        return re.sub(r"\{([^}]*)\}", lambda place: row.get(place[1]), form)
    if "span" in claim:
        values = sorted(column(text, claim["span"]), key=number)
        return form.replace("{least}", values[0]).replace("{most}", values[-1])
    if "count" in claim:
        counts = Counter(column(text, claim["count"]))
        return form.replace("{counts}", ", ".join(f"{value} {times}" for value, times in counts.most_common()))
    if form not in " ".join(text.split()):
        raise Wrong(f"it does not say {form!r}")
    return form


def anchor(heading: str) -> str:
    """A heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def readme(folder: Path) -> str:
    """The whole of README.md."""
    claims = tomllib.loads((folder / "claims.toml").read_text(encoding="utf-8"))["claim"]
    text, about = HEAD, None
    for claim in claims:
        name = claim["file"]
        try:
            heading, below = section((folder / name).read_text(encoding="utf-8"), claim["heading"])
            shown = figure(claim, below)
        except (Wrong, OSError) as error:
            raise Wrong(f"{claim['claim']}: {name}: {error}") from error
        if claim["about"] != about:
            about = claim["about"]
            text += f"\n## {about}\n\n| claim | figure | machine | commit | evidence |\n|---|---|---|---|---|\n"
        link = f"[{name}]({name}#{anchor(heading)})"
        text += f"| {claim['claim']} | {shown} | {claim['machine']} | {claim['commit']} | {link} |\n"
    text += DOCUMENTS
    for path in sorted(folder.glob("*.md")):
        if path.name != "README.md":
            title = path.read_text(encoding="utf-8").split("\n")[0].lstrip("# ")
            text += f"| [{path.name}]({path.name}) | {title} |\n"
    return text


def main(arguments: list[str]) -> None:
    checks = "--check" in arguments
    root = Path(next((word for word in arguments if word != "--check"), Path(__file__).parents[1]))
    folder, made = root / "evidence", root / "evidence/README.md"
    if checks and not (folder / "claims.toml").is_file():
        return
    try:
        text = readme(folder)
    except Wrong as error:
        if not checks:
            sys.exit(f"evidence.py: error: {error}")
        print(f"evidence/claims.toml:1: error: {error}")
        return
    if not checks:
        made.write_text(text, encoding="utf-8")
    elif not made.is_file() or made.read_text(encoding="utf-8") != text:
        print("evidence/README.md:1: error: it is not what scripts/evidence.py makes: run that")


if __name__ == "__main__":
    main(sys.argv[1:])
