"""Checks that the query for regressions finds the one of counter.patch, with its interval, and nothing else.

    regression.py LAKE

The patch has every CPU count its enqueues in `root_domain`, on the line of what all of them read when they balance. So the type costs more, its counter does, and so
do fields of that line. Everything else is as it was.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import report

REGRESSED, COUNTER = "root_domain", "root_domain.nr_enqueued"


def main(lake):
    connection = report.connect(Path(lake))
    _, _, columns, rows = report.ask(connection, "regressions")
    found = [dict(zip(columns, row)) for row in rows]
    for row in found:
        print("  ".join(report.shown(value) for value in row.values()))
    machines = {row[0] for row in connection.execute("SELECT DISTINCT machine FROM replays").fetchall()}
    for machine in machines:
        names = {row["name"] for row in found if row["machine"] == machine}
        assert {REGRESSED, COUNTER} <= names, f"{machine}: the regression is not found: {names}"
        victims = {name for name in names if name.startswith(f"{REGRESSED}.")} - {COUNTER}
        assert victims, f"{machine}: no field is found that was read beside the counter"
    for row in found:
        assert row["name"].split(".")[0] == REGRESSED, f"{row['name']} is found, too"
        change, interval = row["change, % of everything"], row["± (95 %)"]
        assert change - interval >= 1 - 0.01, f"{row}: within its interval"
    print(f"regression: {len(found)} rows, all of {REGRESSED}")


main(sys.argv[1])
