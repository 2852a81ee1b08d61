-- What the five published works changed, kernel by kernel
-- Share of everything that the workloads cost together on a machine, in percent, mean over the seeds: of types, fields and functions that published works rearranged. Empty: it costs nothing,
-- or is not there. In mainline: 1 since 7.0, 2 since 7.2, 3 not by 7.2, 4 limited to one update a millisecond since 6.7, 5 since 7.0.
WITH works (work, subject, name) AS (VALUES
    ('1 struct rq', 'type', 'rq'),
    ('2 cfs_rq and sched_entity', 'type', 'cfs_rq'),
    ('2 cfs_rq and sched_entity', 'type', 'sched_entity'),
    ('2 cfs_rq and sched_entity', 'type', 'sched_entity_stats'),
    ('2 cfs_rq and sched_entity', 'type', 'cfs_tg_state'),
    ('2 cfs_rq and sched_entity', 'field', 'task_group.cfs_rq'),
    ('2 cfs_rq and sched_entity', 'field', 'task_group.se'),
    ('3 root_domain', 'type', 'root_domain'),
    ('4 load_avg', 'field', 'task_group.load_avg'),
    ('5 nohz', 'type', 'nohz'),
    ('5 nohz', 'field', 'nohz.nr_cpus'),
    ('5 nohz', 'function', 'nohz_balance_exit_idle')
), everything AS (
    SELECT kernel, machine, sum(whole) AS whole
    FROM (SELECT DISTINCT kernel, workload, machine, whole FROM comparable) GROUP BY ALL
), shares AS (
    SELECT work, subject, name, machine, regexp_extract(kernel, '^\d+\.\d+(\.[1-9]\d*)?') AS release, round(100 * sum(mean) / any_value(e.whole), 2) AS share
    FROM comparable c JOIN works w USING (subject, name) JOIN everything e USING (kernel, machine)
    GROUP BY ALL
)
FROM (PIVOT shares ON release USING first(share) GROUP BY work, subject, name, machine) ORDER BY work, subject DESC, name, machine;
