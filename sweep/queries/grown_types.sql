-- Types that take more cache lines than in the kernel before
-- Bytes of the type, and lines of 64 bytes that an object takes which starts one. Of types that a workload accesses.
WITH sizes AS (
    SELECT kernel, type, max(size_bytes) AS bytes, sum(t.accesses) / sum(r.accesses) AS share
    FROM types t JOIN (SELECT run, accesses FROM runs WHERE about = 'recording') r USING (run)
    WHERE size_bytes IS NOT NULL GROUP BY ALL
)
SELECT n.older, n.newer, a.type, a.bytes AS "bytes before", b.bytes AS "bytes after", (a.bytes + 63) // 64 AS "lines before", (b.bytes + 63) // 64 AS "lines after",
       round(100 * b.share, 3) AS "% of accesses"
FROM neighbours n JOIN sizes a ON a.kernel = n.older JOIN sizes b ON b.kernel = n.newer AND a.type = b.type
WHERE (b.bytes + 63) // 64 > (a.bytes + 63) // 64
ORDER BY "% of accesses" DESC, n.older, a.type;
