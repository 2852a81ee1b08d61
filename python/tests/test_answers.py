"""The module as a notebook uses it, on a real recording and its tables.

From the environment: LINEMATE (the command), RECORDING, LAKE (its tables, from exports without a
machine, with one, and with an edit of `rq`). `scripts/test-sweep.sh python` makes all three.
"""

import importlib.metadata
import json
import os
import shutil
import tempfile
import types
import typing
import unittest
import unittest.mock
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NotRequired, Union, assert_type, get_args, get_origin

import nbformat
from nbclient import NotebookClient

import linemate
from linemate import CostsDocument, GrowthDocument, LayoutDocument, MachinesDocument, Refused, Report, WhatIfDocument, documents, pandas_frames, polars_frames

RECORDING = os.environ["RECORDING"]
LAKE = Path(os.environ["LAKE"])
NOTEBOOK = Path(__file__).parents[1] / "hot-fields.ipynb"
# Each cell of the notebook may take this long, in seconds; all together take a few.
CELL_LIMIT = 120


def faults(value: object, kind: object, place: str) -> Iterator[str]:
    """Where a value is not what a type of `documents` says."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is NotRequired:
        yield from faults(value, parts[0], place)
    elif typing.is_typeddict(kind):
        yield from faults_of_object(value, typing.cast(type, kind), place)
    elif origin in (Union, types.UnionType):
        if all(any(faults(value, part, place)) for part in parts):
            yield f"{place}: {value!r}"
    elif origin is Literal:
        if value not in parts:
            yield f"{place}: {value!r}"
    elif origin is list and isinstance(value, list):
        for item in value:
            yield from faults(item, parts[0], f"{place}[]")
    elif origin is dict and isinstance(value, dict):
        for item in value.values():
            yield from faults(item, parts[1], f"{place}.*")
    elif not isinstance(value, (int, float) if kind is float else typing.cast(type, origin or kind)):
        yield f"{place}: {value!r} is no {kind}"


def faults_of_object(value: object, kind: type, place: str) -> Iterator[str]:
    hints = typing.get_type_hints(kind, include_extras=True)
    if not isinstance(value, dict):
        yield f"{place}: {value!r}"
        return
    yield from (f"{place}.{key}: not declared" for key in value.keys() - hints.keys())
    for key, hint in hints.items():
        if key in value:
            yield from faults(value[key], hint, f"{place}.{key}")
        elif get_origin(hint) is not NotRequired:
            yield f"{place}.{key}: missing"


class Documents(unittest.TestCase):
    def test_documents_are_what_their_types_say(self) -> None:
        recording = ("-i", RECORDING)
        whatif = ("--type", "rq", "-e", "isolate __lock", "--machine", "spr-w-48", "--interleavings", "8")
        asked = [
            (Report, linemate.ask(Report, "--type", "rq", *recording)),
            (Report, linemate.ask(Report, "--by", "line", *recording)),
            (CostsDocument, linemate.ask(CostsDocument, "--machine", "spr-w-48", *recording)),
            (WhatIfDocument, linemate.ask(WhatIfDocument, *whatif, *recording)),
            (LayoutDocument, linemate.ask(LayoutDocument, "rq", *recording)),
            (MachinesDocument, linemate.ask(MachinesDocument)),
        ]
        for kind, document in asked:
            self.assertEqual(list(faults(document, kind, kind.__name__)), [])

    def test_a_wrong_document_has_faults(self) -> None:
        report: typing.Any = linemate.ask(Report, "-i", RECORDING)
        report["ledger"]["recorded"] = "many"
        report["types"][0]["nonsense"] = 1
        del report["inputs"]["tool"]
        self.assertEqual(len(list(faults(report, Report, "Report"))), 3)

    def test_answers_have_static_types(self) -> None:
        report = linemate.ask(Report, "-i", RECORDING)
        assert_type(report, Report)
        assert_type(report["ledger"]["recorded"], int)
        self.assertGreater(report["ledger"]["recorded"], 100_000)

    def test_a_saved_document_is_read(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "report.json")
            report = linemate.ask(Report, "-i", RECORDING)
            path.write_text(json.dumps(report), encoding="utf-8")
            self.assertEqual(linemate.load(Report, path), report)
            with self.assertRaisesRegex(Refused, "the schema is linemate.report/2, not linemate.growth/1"):
                linemate.load(GrowthDocument, path)
            path.write_text("{", encoding="utf-8")
            with self.assertRaisesRegex(Refused, "not JSON"):
                linemate.load(Report, path)

    def test_refusals_are_the_commands_own(self) -> None:
        with self.assertRaisesRegex(Refused, '^linemate: no type or typed variable "no_such_type"'):
            linemate.ask(Report, "--type", "no_such_type", "-i", RECORDING)
        with self.assertRaisesRegex(Refused, r"not linemate.costs/\d+, which `linemate report --machine M --json`"):
            linemate.ask(CostsDocument, "-i", RECORDING)
        with self.assertRaisesRegex(Refused, "load it"):
            linemate.ask(linemate.BaselineDocument)

    def test_a_command_that_is_not_there_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, {"PATH": folder}):
            os.environ.pop("LINEMATE", None)
            with self.assertRaisesRegex(Refused, "^linemate is not on PATH: install it, or set LINEMATE$"):
                linemate.ask(MachinesDocument)

    def test_it_is_of_the_commands_version(self) -> None:
        self.assertEqual(linemate.ask(Report, "-i", RECORDING)["inputs"]["tool"], importlib.metadata.version("linemate"))


class Frames(unittest.TestCase):
    def test_rows_become_frames(self) -> None:
        costs = linemate.ask(CostsDocument, "--machine", "spr-w-48", "-i", RECORDING)["costs"]
        total = sum(row["causes"]["false_sharing"] for row in costs["types"])
        of_pandas = pandas_frames.of_rows(costs["types"])
        of_polars = polars_frames.of_rows(costs["types"])
        self.assertEqual(int(of_pandas["causes.false_sharing"].sum()), total)
        self.assertEqual(of_polars["causes.false_sharing"].sum(), total)
        self.assertEqual(list(of_pandas.columns), of_polars.columns)

    def test_integers_next_to_nulls_stay_integers(self) -> None:
        rows: list[dict[str, object]] = [{"count": 2**53 + 1}, {"count": None}, {"other": 1}]
        frame = pandas_frames.of_rows(rows)
        self.assertEqual(str(frame["count"].dtype), "Int64")
        self.assertEqual(frame["count"].iloc[0], 2**53 + 1)
        self.assertEqual(polars_frames.of_rows(rows)["count"][0], 2**53 + 1)

    def test_tables_have_the_declared_columns(self) -> None:
        place = {"kernel", "workload", "machine", "seed"}
        for table in typing.get_args(documents.Table):
            declared = set(documents.COLUMNS[table]) | place
            of_polars = polars_frames.of_table(LAKE, table).collect()
            of_pandas = pandas_frames.of_table(LAKE, table)
            self.assertEqual(set(of_polars.columns), declared, table)
            self.assertEqual(set(of_pandas.columns), declared, table)
            self.assertEqual(len(of_pandas), len(of_polars), table)
            for name, kind in documents.COLUMNS[table].items():
                of_kind = {"text": "String", "integer": "Int64", "number": "Float64", "flag": "Boolean"}[kind]
                self.assertEqual(str(of_polars[name].dtype), of_kind, f"{table}.{name}")

    def test_tables_have_the_sums_of_the_document(self) -> None:
        report = linemate.ask(Report, "-i", RECORDING)
        frame = pandas_frames.of_table(LAKE, "ledger")
        self.assertEqual(int(frame["accesses"].sum()), report["ledger"]["total"])
        self.assertEqual(set(frame["workload"]), {"a name/with=signs %"})
        self.assertEqual(set(polars_frames.of_table(LAKE, "ledger").collect()["workload"]), {"a name/with=signs %"})

    def test_a_run_that_was_not_written_in_full_is_left_out(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            lake = Path(folder, "lake")
            shutil.copytree(LAKE, lake)
            runs = list(lake.glob("runs/**/*.parquet"))
            kept = [path.stem for path in runs if path.stem not in {path.stem for path in lake.glob("ledger/**/*.parquet")}]
            for path in runs:
                if path.stem not in kept:
                    path.unlink()
            self.assertTrue(list(lake.glob("ledger/**/*.parquet")))
            self.assertEqual(len(pandas_frames.of_table(lake, "ledger")), 0)
            self.assertEqual(polars_frames.of_table(lake, "ledger").collect().height, 0)
            self.assertEqual(len(pandas_frames.of_table(lake, "runs")), len(kept))

    def test_folders_of_another_version_are_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for of_table in (pandas_frames.of_table, polars_frames.of_table):
                with self.assertRaisesRegex(Refused, "the schema is None, not linemate.export/"):
                    of_table(folder, "runs")
                with self.assertRaisesRegex(Refused, "there is no table cost: the tables are runs, "):
                    of_table(LAKE, "cost")  # type: ignore[arg-type]


class Notebook(unittest.TestCase):
    def test_it_runs(self) -> None:
        notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
        self.assertFalse(any(cell.get("outputs") for cell in notebook.cells), "outputs are not committed")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "linemate.data").symlink_to(RECORDING)
            NotebookClient(notebook, timeout=CELL_LIMIT, resources={"metadata": {"path": folder}}).execute()
        shown = notebook.cells[-1]["outputs"][0]["data"]["text/html"]
        self.assertIn("isolate", shown)


if __name__ == "__main__":
    unittest.main()
