-- Cells without figures
SELECT kernel, workload, machine, seed, reason FROM runs WHERE about = 'failure' ORDER BY ALL;
