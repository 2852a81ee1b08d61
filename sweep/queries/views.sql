-- What the queries of this folder build on. Set the folder of the tables first: SET VARIABLE lake = 'target/sweep/lake';
-- A run counts if it has a row in runs: the others are of an export that was killed.

CREATE OR REPLACE VIEW runs AS
SELECT * FROM read_parquet(getvariable('lake') || '/runs/**/*.parquet', hive_partitioning = true, hive_types = {'seed': VARCHAR});

CREATE OR REPLACE VIEW types AS
SELECT t.* FROM read_parquet(getvariable('lake') || '/types/**/*.parquet', hive_partitioning = true, hive_types = {'seed': VARCHAR}) t
SEMI JOIN runs USING (run);

CREATE OR REPLACE VIEW fields AS
SELECT t.* FROM read_parquet(getvariable('lake') || '/fields/**/*.parquet', hive_partitioning = true, hive_types = {'seed': VARCHAR}) t
SEMI JOIN runs USING (run);

CREATE OR REPLACE VIEW costs AS
SELECT t.* FROM read_parquet(getvariable('lake') || '/costs/**/*.parquet', hive_partitioning = true, hive_types = {'seed': VARCHAR}) t
SEMI JOIN runs USING (run);

-- Kernels in the order of their versions: numbers compare as numbers.
CREATE OR REPLACE VIEW kernels AS
SELECT kernel, row_number() OVER (ORDER BY regexp_extract_all(kernel, '\d+')::BIGINT[], kernel) AS position
FROM (SELECT DISTINCT kernel FROM runs WHERE about <> 'failure');

CREATE OR REPLACE VIEW neighbours AS
SELECT older.kernel AS older, newer.kernel AS newer
FROM kernels older JOIN kernels newer ON newer.position = older.position + 1;

-- Two-sided 95 % quantiles of Student's t by degrees of freedom (NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2).
CREATE OR REPLACE VIEW student AS
SELECT unnest(range(1, 31)) AS freedom, unnest([
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042]) AS t95;

-- Replays as recorded, without edits: what costs are compared of.
CREATE OR REPLACE VIEW replays AS
SELECT run, kernel, workload, machine, seed, cycles FROM runs WHERE about = 'replay';

-- Mean and variance over the seeds of what something costs. A run in which it costs nothing has no row and counts as 0.
CREATE OR REPLACE VIEW cost_means AS
WITH cells AS (
    SELECT kernel, workload, machine, count(*) AS runs, avg(cycles) AS whole FROM replays GROUP BY ALL
), sums AS (
    SELECT kernel, workload, machine, subject, name, sum(c.cycles) AS total, sum(c.cycles::DOUBLE ** 2) AS squares,
           sum(false_sharing_cycles) AS false_total
    FROM costs c SEMI JOIN replays USING (run) GROUP BY ALL
)
SELECT kernel, workload, machine, subject, name, runs, whole, total / runs AS mean, false_total / runs AS false_sharing,
       CASE WHEN runs > 1 THEN greatest(squares - total::DOUBLE ** 2 / runs, 0) / (runs - 1) END AS variance
FROM sums JOIN cells USING (kernel, workload, machine);

-- The same of the workloads and machines that every kernel has figures of: other means would compare workloads, not kernels.
CREATE OR REPLACE VIEW comparable AS
SELECT * FROM cost_means SEMI JOIN (
    SELECT workload, machine FROM cost_means GROUP BY ALL HAVING count(DISTINCT kernel) = (SELECT count(*) FROM kernels)
) USING (workload, machine);
