-- Fields whose readers or writers changed from one kernel to the next
-- Numbers of CPUs that read or write the field, over the seeds from the fewest to the most. Listed where the two ranges do not meet and the field has at least 0.01 % of the accesses.
WITH uses AS (
    SELECT kernel, workload, type, field, count(DISTINCT seed) AS seeds,
           min(readers) AS fewest_readers, max(readers) AS most_readers, min(writers) AS fewest_writers, max(writers) AS most_writers,
           avg(f.accesses / r.accesses) AS share, any_value(f.functions ORDER BY seed) AS functions
    FROM fields f JOIN (SELECT run, accesses FROM runs WHERE about = 'recording') r USING (run)
    GROUP BY ALL
)
SELECT n.older, n.newer, a.workload, a.type || '.' || a.field AS field,
       a.fewest_readers || '–' || a.most_readers || ' → ' || b.fewest_readers || '–' || b.most_readers AS readers,
       a.fewest_writers || '–' || a.most_writers || ' → ' || b.fewest_writers || '–' || b.most_writers AS writers,
       round(100 * greatest(a.share, b.share), 2) AS "% of accesses", b.functions AS "accessed by"
FROM neighbours n JOIN uses a ON a.kernel = n.older JOIN uses b ON b.kernel = n.newer AND (a.workload, a.type, a.field) = (b.workload, b.type, b.field)
WHERE a.seeds >= 3 AND b.seeds >= 3 AND greatest(a.share, b.share) >= 0.0001
  AND (a.most_readers < b.fewest_readers OR b.most_readers < a.fewest_readers OR a.most_writers < b.fewest_writers OR b.most_writers < a.fewest_writers)
ORDER BY "% of accesses" DESC, n.older, a.workload, field LIMIT 60;
