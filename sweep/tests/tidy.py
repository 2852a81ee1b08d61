"""Checks what `cell.py tidy` removes from the tables of a sweep: runs whose place has another run now, and no others.

    tidy.py EMPTY_FOLDER
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import cell

HERE = "kernel=6.12/workload=pipes/machine=none/seed=1"
ELSEWHERE = "kernel=6.12/workload=pipes/machine=none/seed=2"


def run(out, key, digit, place, tables=("runs", "types")):
    """A run in the tables; without a key it was exported by hand. What it is called there."""
    name = digit * 32
    for table in tables:
        (out / "lake" / table / place).mkdir(parents=True, exist_ok=True)
        (out / "lake" / table / place / f"{name}.parquet").touch()
    if key is not None:
        cell.write(out / "exported" / key, json.dumps({"run": name}))
    return name


def rows(out, table):
    return {path.stem for path in (out / "lake" / table).rglob("*.parquet")}


def main(folder):
    out = Path(folder)
    old = run(out, "old", "a", HERE)
    now = run(out, "now", "b", HERE)
    added = run(out, "added", "c", ELSEWHERE)
    by_hand = run(out, None, "d", HERE)
    # Of a version whose files did not name their run.
    cell.write(out / "exported" / "unknown", "")
    cell.write(out / "matrix.json", json.dumps({"runs": {"now": {}, "unknown": {}}}))
    for _ in range(2):
        cell.tidy(out)
        for table in ("runs", "types"):
            assert rows(out, table) == {now, added, by_hand}, (table, rows(out, table), old)
        assert sorted(path.name for path in (out / "exported").iterdir()) == ["added", "now", "unknown"]
    print("tidy: the run whose place was taken is gone")


main(sys.argv[1])
