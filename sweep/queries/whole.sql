-- What each workload costs altogether, kernel by kernel
-- Millions of cycles of accesses that left their core, mean over the seeds and half of its 95 % confidence interval (Student).
WITH wholes AS (
    SELECT kernel, workload, machine, avg(cycles) AS mean, stddev_samp(cycles) AS deviation, count(*) AS runs FROM replays GROUP BY ALL
), shown AS (
    SELECT workload, machine, regexp_extract(kernel, '^\d+\.\d+(\.[1-9]\d*)?') AS release,
           format('{:.2f} ± {:.2f}', mean / 1e6, t95 * deviation / sqrt(runs) / 1e6) AS cycles
    FROM wholes JOIN student ON freedom = least(30, runs - 1)
)
FROM (PIVOT shown ON release USING first(cycles) GROUP BY workload, machine) ORDER BY workload, machine;
