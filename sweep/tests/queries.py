"""Runs every query over tables that are made up, with one regression among noise, and checks that it alone is found.

    queries.py FOLDER     an empty folder to make the tables in
"""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import duckdb
import report

KERNELS = ["6.9.1-x", "6.10.2-x", "6.11.0-x"]
FIELDS = [f"type_{number // 10}.field_{number % 10}" for number in range(400)]
SEEDS = [1, 2, 3]
# On the newest kernel only; 6.9 comes before 6.10.
REGRESSED, GROWN, REWRITTEN = "type_7.field_3", "type_5", "field_1"


def rows():
    chance = random.Random(1)
    # Most fields cost little, and what they cost differs by a tenth from seed to seed.
    base = {name: 10_000 * 0.99**number for number, name in enumerate(FIELDS)}
    for kernel in KERNELS:
        newest = kernel == KERNELS[-1]
        for seed in SEEDS:
            for machine in ("none", "big", "small"):
                run = f"{kernel}{seed}{machine}"
                if machine == "none":
                    yield "runs", (run, "recording", None, 1_000_000, None, kernel, "work", machine, str(seed))
                    for number in range(40):
                        size = 640 + (1 if newest and f"type_{number}" == GROWN else 0)
                        yield "types", (run, f"type_{number}", size, 1000, kernel, "work", machine, str(seed))
                    for name in FIELDS:
                        kind, field = name.split(".")
                        writers = 8 if newest and kind == "type_2" and field == REWRITTEN else 1
                        yield "fields", (run, kind, field, 500, 4, writers, "f", kernel, "work", machine, str(seed))
                    continue
                costs = {name: round(cycles * chance.uniform(0.9, 1.1)) for name, cycles in base.items()}
                if newest:
                    costs[REGRESSED] += round(0.03 * sum(base.values()))
                if machine == "small":
                    costs["type_0.field_0"] *= 3
                yield "runs", (run, "replay", None, 1_000_000, sum(costs.values()), kernel, "work", machine, str(seed))
                if machine == "big":
                    yield "costs", (run, "field", "task_group.load_avg", 1000 if newest else 2000, 0, kernel, "work", machine, str(seed))
                for name, cycles in costs.items():
                    yield "costs", (run, "field", name, cycles, cycles // 2, kernel, "work", machine, str(seed))
                for number in range(40):
                    cycles = sum(costs[name] for name in FIELDS[number * 10 : number * 10 + 10])
                    yield "costs", (run, "type", f"type_{number}", cycles, cycles // 2, kernel, "work", machine, str(seed))
    yield "runs", ("failed", "failure", "the guest panicked", None, None, "debian:0.1", "work", "big", "1")


COLUMNS = {
    "runs": "run VARCHAR, about VARCHAR, reason VARCHAR, accesses BIGINT, cycles BIGINT",
    "types": "run VARCHAR, type VARCHAR, size_bytes BIGINT, accesses BIGINT",
    "fields": "run VARCHAR, type VARCHAR, field VARCHAR, accesses BIGINT, readers BIGINT, writers BIGINT, functions VARCHAR",
    "costs": "run VARCHAR, subject VARCHAR, name VARCHAR, cycles BIGINT, false_sharing_cycles BIGINT",
}


def main(folder):
    connection = duckdb.connect()
    tables = {name: [] for name in COLUMNS}
    for table, row in rows():
        tables[table].append(row)
    for name, columns in COLUMNS.items():
        tool = ", tool VARCHAR" if name == "runs" else ""
        connection.execute(f"CREATE TABLE {name} ({columns}, kernel VARCHAR, workload VARCHAR, machine VARCHAR, seed VARCHAR{tool})")
        values = [(*row, "0.1.0") if tool else row for row in tables[name]]
        connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(values[0]))})", values)
        connection.execute(f"COPY {name} TO '{folder}/{name}' (FORMAT parquet, PARTITION_BY (kernel, workload, machine, seed))")
    connection = report.connect(folder)
    found = {name: report.ask(connection, name)[3] for name in report.ORDER}
    regressions = sorted((row[0], row[1], row[3], row[4], row[5]) for row in found["regressions"])
    older, newer = KERNELS[1:]
    wanted = [(older, newer, machine, subject, name) for machine in ("big", "small")
              for subject, name in (("field", REGRESSED), ("type", REGRESSED.split(".")[0]))]
    check("regressions", regressions, wanted)
    for row in found["regressions"]:
        change, interval = row[8:10]
        check("the change and its interval", 2 < change < 4 and 0 < interval < change, True)
    check("the whole", [(row[0], row[1], len(row)) for row in found["whole"]], [("work", "big", 5), ("work", "small", 5)])
    cycles = connection.execute("SELECT avg(cycles) FROM runs WHERE kernel = '6.9.1-x' AND machine = 'big'").fetchone()[0]
    columns = report.ask(connection, "whole")[2]
    check("the order of releases", columns[2:], ["6.9.1", "6.10.2", "6.11"])
    first = dict(zip(columns, found["whole"][0]))["6.9.1"]
    check("the whole's mean", first.split(" ± ")[0], f"{cycles / 1e6:.2f}")
    check("published works", [row[:4] for row in found["published"]], [("4 load_avg", "field", "task_group.load_avg", "big")])
    before, after = (dict(zip(report.ask(connection, "published")[2], found["published"][0]))[release] for release in ("6.10.2", "6.11"))
    check("the published work's share", 1.8 < before / after < 2.2, True)
    check("grown types", [(row[0], row[2], row[5], row[6]) for row in found["grown_types"]], [(older, GROWN, 10, 11)])
    check("readers and writers", [(row[0], row[3], row[5]) for row in found["readers_writers"]], [(older, f"type_2.{REWRITTEN}", "1–1 → 8–8")])
    check("machines", found["machines"][0][1:3] + (found["machines"][0][5],), ("type_0", "big", "small"))
    check("false sharing", {row[1] for row in found["false_sharing"][:2]}, {REGRESSED})
    check("failures", found["failures"], [("debian:0.1", "work", "big", "1", "the guest panicked")])
    report.main(folder, folder / "report.md", folder / "report.html")
    check("the page has the field", REGRESSED in (folder / "report.html").read_text(), True)
    print(f"queries: {len(found)} queries answer as they should")


def check(what, got, wanted):
    if got != wanted:
        raise SystemExit(f"queries: error: {what}: {got!r}, and {wanted!r} is right")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
