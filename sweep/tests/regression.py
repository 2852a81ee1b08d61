"""Checks that the query for regressions finds the one of counter.patch, with its interval, and nothing else.

    regression.py LAKE

The patch has every CPU count what it allocates in `kmem_cache`, beside what all of them read when they allocate. So the type costs more, and
everything else is as it was.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import report

REGRESSED, COUNTER = "kmem_cache", "kmem_cache.nr_allocated"
COST = "SELECT kernel, mean FROM cost_means WHERE subject = 'field' AND workload = ? AND machine = ? AND name = ? ORDER BY kernel"


def main(lake):
    connection = report.connect(Path(lake))
    _, _, columns, rows = report.ask(connection, "regressions")
    found = [dict(zip(columns, row)) for row in rows]
    for row in found:
        print("  ".join(report.shown(value) for value in row.values()))
    # Not on each machine: where the near end of the interval is below 1 % of everything, the query is silent.
    assert any(row["name"] == REGRESSED for row in found), "the regression is not found"
    for row in found:
        assert row["name"].split(".")[0] == REGRESSED, f"{row['name']} is found, too"
        change, interval = row["change, % of everything"], row["± (95 %)"]
        assert change - interval >= 1 - 0.01, f"{row}: within its interval"
        counter = connection.execute(COST, [row["workload"], row["machine"], COUNTER]).fetchall()
        assert len(counter) == 1 and counter[0][1] > 0, f"the counter is in one of the two kernels: {counter}"
    print(f"regression: {len(found)} rows, all of {REGRESSED}")


main(sys.argv[1])
