"""Frames of Polars."""

import os

import polars

from .documents import COLUMNS, Kind, Table
from .rows import Rows, flat, folder_of

_KINDS: dict[Kind, type[polars.DataType]] = {
    "text": polars.String,
    "integer": polars.Int64,
    "number": polars.Float64,
    "flag": polars.Boolean,
}
# What the names of the folders say of a run.
_PLACE = dict.fromkeys(("kernel", "workload", "machine", "seed"), polars.String)


def of_rows(rows: Rows) -> polars.DataFrame:
    """A frame of a document's rows, such as `report["types"]`."""
    return polars.DataFrame(flat(rows), infer_schema_length=None)


def of_table(lake: str | os.PathLike[str], table: Table) -> polars.LazyFrame:
    """A table of `linemate export --parquet LAKE`, of the runs that were written in full."""
    frame = _scan(lake, table)
    if table == "runs":
        return frame
    return frame.join(_scan(lake, "runs"), on="run", how="semi")


def _scan(lake: str | os.PathLike[str], table: Table) -> polars.LazyFrame:
    folder = folder_of(lake, table)
    if folder is None:
        columns = {name: _KINDS[kind] for name, kind in COLUMNS[table].items()}
        return polars.LazyFrame(schema={**columns, **_PLACE})
    return polars.scan_parquet(folder / "**/*.parquet", hive_partitioning=True, hive_schema=_PLACE)
