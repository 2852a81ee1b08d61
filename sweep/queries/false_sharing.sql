-- The dearest false sharing over all workloads
-- Cycles that accesses to a field took because another core had its line, though no word of it was exchanged: what a layout can end. Means over the seeds, sums over workloads, on
-- the newest kernel.
WITH newest AS (SELECT kernel FROM kernels ORDER BY position DESC LIMIT 1),
     whole AS (
         SELECT machine, sum(whole) AS whole
         FROM (SELECT DISTINCT kernel, workload, machine, whole FROM cost_means SEMI JOIN newest USING (kernel)) GROUP BY machine)
SELECT machine, name AS field, round(sum(false_sharing)) AS "cycles", round(100 * sum(false_sharing) / any_value(w.whole), 2) AS "% of everything",
       count(*) AS workloads, arg_max(workload, false_sharing) AS "most in"
FROM cost_means SEMI JOIN newest USING (kernel) JOIN whole w USING (machine)
WHERE subject = 'field'
GROUP BY machine, name HAVING sum(false_sharing) > 0
ORDER BY "% of everything" DESC, machine, field LIMIT 40;
