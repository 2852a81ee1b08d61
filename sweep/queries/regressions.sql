-- What became more expensive, or less, from one kernel to the next
-- Cycles of a type or field in a whole run, means over the seeds, with the 95 % confidence interval of their difference (Welch). Only what is beyond its interval by at
-- least 1 % of everything: of thousands of fields some leave their interval by chance, but not by much.
WITH pairs AS (
    SELECT n.older, n.newer, workload, machine, subject, name
    FROM neighbours n JOIN cost_means c ON c.kernel IN (n.older, n.newer)
    WHERE subject IN ('type', 'field')
    GROUP BY ALL
), cells AS (
    SELECT DISTINCT kernel, workload, machine, runs, whole FROM cost_means
), sides AS (
    SELECT p.*, coalesce(a.mean, 0) AS before, coalesce(b.mean, 0) AS after, ca.whole,
           coalesce(a.variance, 0) / ca.runs AS va, coalesce(b.variance, 0) / cb.runs AS vb, ca.runs AS na, cb.runs AS nb
    FROM pairs p
    JOIN cells ca ON (ca.kernel, ca.workload, ca.machine) = (p.older, p.workload, p.machine)
    JOIN cells cb ON (cb.kernel, cb.workload, cb.machine) = (p.newer, p.workload, p.machine)
    LEFT JOIN cost_means a ON (a.kernel, a.workload, a.machine, a.subject, a.name) = (p.older, p.workload, p.machine, p.subject, p.name)
    LEFT JOIN cost_means b ON (b.kernel, b.workload, b.machine, b.subject, b.name) = (p.newer, p.workload, p.machine, p.subject, p.name)
    WHERE ca.runs >= 3 AND cb.runs >= 3
), tests AS (
    SELECT *, after - before AS difference,
           CASE WHEN va + vb > 0
                THEN greatest(1, least(30, floor((va + vb) ** 2 / (va ** 2 / (na - 1) + vb ** 2 / (nb - 1)))))::BIGINT
                ELSE 30 END AS freedom
    FROM sides
)
SELECT older, newer, workload, machine, subject, name, round(before) AS before, round(after) AS after,
       round(100 * difference / whole, 2) AS "change, % of everything", round(100 * t95 * sqrt(va + vb) / whole, 2) AS "± (95 %)"
FROM tests JOIN student USING (freedom)
WHERE abs(difference) - t95 * sqrt(va + vb) >= 0.01 * whole
ORDER BY abs(difference) / whole DESC, older, workload, machine, subject, name;
