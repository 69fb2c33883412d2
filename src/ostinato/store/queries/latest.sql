-- name: last_runs
-- How the newest ended execution of each of these jobs went; without what it returned, which may be long.
SELECT e.job_id, e.started_at, e.finished_at, e.result, e.error, e.failures, e.account
FROM {jobs} AS j JOIN {executions} AS e ON e.id = (
    SELECT x.id FROM {executions} AS x WHERE x.job_id = j.id AND x.step = ''
    ORDER BY x.number DESC, x.attempt DESC LIMIT 1)
WHERE j.id {in: ids uuid}
