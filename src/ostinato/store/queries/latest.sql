-- name: last_runs
-- The result of the newest ended execution of each of these jobs; without its value, which may be long.
SELECT e.job_id, e.started_at, e.finished_at, e.outcome, e.error, e.failures, e.account
FROM {jobs} AS j JOIN {executions} AS e ON e.id = (
    SELECT x.id FROM {executions} AS x WHERE x.job_id = j.id AND x.step = ''
    ORDER BY x.number DESC, x.attempt DESC LIMIT 1)
WHERE j.id {in: ids uuid}
