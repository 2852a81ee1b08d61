"""Holds the tables as four readers see them against the documents of --json.

    readers.py duckdb|pandas|polars|spark LAKE REPORT.json COSTS.json

REPORT.json is `report --json --all` by type of a recording, COSTS.json its `report --machine M --json`.
"""

import json
import sys


def with_duckdb(lake):
    import duckdb

    connection = duckdb.connect()

    def total(table, column, where, key):
        query = f"SELECT sum({column}) FROM read_parquet('{lake}/{table}/**/*.parquet', hive_partitioning = true) WHERE {key} = ?"
        arguments = [where[key]]
        for name, value in where.items():
            if name != key:
                query += f" AND {name} = ?"
                arguments.append(value)
        return connection.execute(query, arguments).fetchall()[0][0]

    def places(table):
        rows = connection.execute(f"SELECT DISTINCT kernel, workload, machine FROM read_parquet('{lake}/{table}/**/*.parquet', hive_partitioning = true)")
        return rows.fetchall()

    return total, places


def with_pandas(lake):
    import pandas

    def total(table, column, where, key):
        frame = pandas.read_parquet(f"{lake}/{table}")
        for name, value in where.items():
            frame = frame[frame[name] == value]
        return frame[column].sum()

    def places(table):
        frame = pandas.read_parquet(f"{lake}/{table}", columns=["kernel", "workload", "machine"])
        return list(frame.drop_duplicates().astype(str).itertuples(index=False, name=None))

    return total, places


def with_polars(lake):
    import polars

    def scan(table):
        return polars.scan_parquet(f"{lake}/{table}/**/*.parquet", hive_partitioning=True)

    def total(table, column, where, key):
        frame = scan(table).filter(*[polars.col(name) == value for name, value in where.items()])
        return frame.select(polars.col(column).sum()).collect().item()

    def places(table):
        return scan(table).select("kernel", "workload", "machine").unique().collect().rows()

    return total, places


def with_spark(lake):
    from pyspark.sql import SparkSession, functions

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def total(table, column, where, key):
        frame = spark.read.parquet(f"{lake}/{table}")
        for name, value in where.items():
            frame = frame.where(frame[name] == value)
        return frame.agg(functions.sum(column)).collect()[0][0]

    def places(table):
        rows = spark.read.parquet(f"{lake}/{table}").select("kernel", "workload", "machine").distinct().collect()
        return [tuple(row) for row in rows]

    return total, places


def main(reader, lake, report_path, costs_path):
    total, places = {"duckdb": with_duckdb, "pandas": with_pandas, "polars": with_polars, "spark": with_spark}[reader](lake)
    report, costs = (json.load(open(path)) for path in (report_path, costs_path))
    wanted = {"recording": report["inputs"]["checksum"]}
    checks = 0

    def same(what, got, expected):
        nonlocal checks
        checks += 1
        if int(got) != expected:
            raise SystemExit(f"readers: error: {reader}: {what} is {got}, and {expected} in the documents")

    run = {"about": "recording", **wanted}
    same("runs.accesses", total("runs", "accesses", run, "recording"), report["ledger"]["recorded"])
    same("runs.ledger_total", total("runs", "ledger_total", run, "recording"), report["ledger"]["recorded"])
    key = key_of(lake, "recording", wanted["recording"])
    for table in ("ledger", "types", "functions"):
        same(f"{table}.accesses", total(table, "accesses", {"run": key}, "run"), report["ledger"]["total"])
    for column in ("loads", "stores", "rmws", "silent", "writers"):
        same(f"types.{column}", total("types", column, {"run": key}, "run"), sum(row[column] for row in report["types"]))
    key = key_of(lake, "replay", wanted["recording"])
    of = costs["costs"]
    same("runs.cycles", total("runs", "cycles", {"run": key}, "run"), of["whole"]["cycles"])
    for subject, rows in (("everything", [of["whole"]]), ("type", of["types"]), ("field", of["fields"]), ("function", of["functions"])):
        for column, figure in (("cycles", "cycles"), ("misses", "misses"), ("waited_cycles", "waited"), ("upgrades", "upgrades")):
            same(f"costs.{column} by {subject}", total("costs", column, {"run": key, "subject": subject}, "run"), sum(row[figure] for row in rows))
        false = sum(row["causes"]["false_sharing"] for row in rows)
        same(f"costs.false_sharing_cycles by {subject}", total("costs", "false_sharing_cycles", {"run": key, "subject": subject}, "run"), false)
    same("cpu_pairs.hitm", total("cpu_pairs", "hitm", {"run": key}, "run"), sum(pair["hitm"] for pair in of["pairs"]))
    # Values in the folders' names read back unchanged.
    kernel, machine = report["inputs"]["recording"]["kernel"], of["machine"]
    if (kernel, "a name/with=signs %", machine) not in places("costs"):
        raise SystemExit(f"readers: error: {reader}: no run of {kernel} on {machine} among {places('costs')}")
    print(f"readers: {reader}: {checks} totals are those of the documents")


def key_of(lake, about, recording):
    """The key of the recording's run: from the names of the files alone, which are the same for every reader."""
    import duckdb

    query = f"SELECT run FROM read_parquet('{lake}/runs/**/*.parquet') WHERE about = ? AND recording = ?"
    [(key,)] = duckdb.connect().execute(query, [about, recording]).fetchall()
    return key


if __name__ == "__main__":
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
