-- Where machines disagree
-- A type's share of everything that leaves a core, in per cent, on the machine where it is least and where it is most: means over seeds and kernels. What is worth its place on one machine is not on the other.
WITH shares AS (
    SELECT workload, machine, name AS type, avg(100 * mean / whole) AS share FROM cost_means WHERE subject = 'type' GROUP BY ALL
), places AS (
    SELECT workload, machine, type, share, rank() OVER (PARTITION BY workload, machine ORDER BY share DESC) AS place FROM shares
)
SELECT workload, type, arg_min(machine, share) AS "least on", round(min(share), 2) AS "% there", arg_min(place, share) AS "place there",
       arg_max(machine, share) AS "most on", round(max(share), 2) AS "% there ", arg_max(place, share) AS "place there "
FROM places GROUP BY ALL HAVING count(*) > 1
ORDER BY max(share) - min(share) DESC, workload, type LIMIT 40;
