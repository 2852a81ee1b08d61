"""Frames of pandas."""

import os
from typing import Any

import pandas
import pyarrow
import pyarrow.dataset

from .documents import COLUMNS, Kind, Table
from .rows import Rows, flat, folder_of

_KINDS: dict[Kind, str] = {"text": "string", "integer": "Int64", "number": "Float64", "flag": "boolean"}
_HELD: dict[type, str] = {str: "string", int: "Int64", float: "Float64", bool: "boolean"}
# What the names of the folders say of a run.
_PLACE = pyarrow.schema([("kernel", pyarrow.string()), ("workload", pyarrow.string()), ("machine", pyarrow.string()), ("seed", pyarrow.string())])


def of_rows(rows: Rows) -> pandas.DataFrame:
    """A frame of a document's rows, such as `report["types"]`. Integers stay integers next to nulls."""
    frame = pandas.DataFrame(flat(rows), dtype=object)
    return frame.astype({name: _kind(frame[name]) for name in frame})


def _kind(column: "pandas.Series[Any]") -> str:
    """Of a column's values, because pandas itself makes floats of integers next to nulls."""
    held = {type(value) for value in column if value is not None}
    if held == {int, float}:
        return "Float64"
    return _HELD.get(held.pop(), "object") if len(held) == 1 else "object"


def of_table(lake: str | os.PathLike[str], table: Table) -> pandas.DataFrame:
    """A table of `linemate export --parquet LAKE`, of the runs that were written in full."""
    frame = _read(lake, table)
    if table == "runs":
        return frame
    return frame[frame["run"].isin(_read(lake, "runs")["run"])].reset_index(drop=True)


def _read(lake: str | os.PathLike[str], table: Table) -> pandas.DataFrame:
    folder = folder_of(lake, table)
    if folder is None:
        columns = {name: _KINDS[kind] for name, kind in COLUMNS[table].items()} | dict.fromkeys(_PLACE.names, "string")
        return pandas.DataFrame(columns=list(columns)).astype(columns)
    partitioning = pyarrow.dataset.partitioning(_PLACE, flavor="hive")
    return pandas.read_parquet(folder, dtype_backend="numpy_nullable", partitioning=partitioning)
