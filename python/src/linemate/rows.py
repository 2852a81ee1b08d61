"""What both kinds of frames have in common."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .command import Refused
from .documents import COLUMNS, TABLES_SCHEMA, Table

Rows = Sequence[Mapping[str, object]]


def flat(rows: Rows) -> list[dict[str, object]]:
    """The rows with a key `outer.inner` for each key of an object inside of them, all with all keys."""
    leaves = [dict(_leaves(row, "")) for row in rows]
    keys = dict.fromkeys(key for row in leaves for key in row)
    return [{key: row.get(key) for key in keys} for row in leaves]


def _leaves(row: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, value in row.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def folder_of(lake: str | os.PathLike[str], table: Table) -> Path | None:
    """The table's folder; none if no run has the table. Raises `Refused` for a folder of another version."""
    if table not in COLUMNS:
        raise Refused(f"there is no table {table}: the tables are {', '.join(COLUMNS)}")
    stamp = Path(lake, "_schema")
    found = stamp.read_text(encoding="utf-8").strip() if stamp.is_file() else None
    if found != TABLES_SCHEMA:
        raise Refused(f"{os.fspath(lake)}: the schema is {found}, not {TABLES_SCHEMA}, which `linemate export` writes")
    folder = Path(lake, table)
    return folder if folder.is_dir() else None
