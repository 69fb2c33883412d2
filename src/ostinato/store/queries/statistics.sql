-- Figures. Totals come from the counters of the jobs; what needs single runs looks at the newest few only.

-- name: counters_by_task
-- What the jobs of each task have counted since they were made, and how many jobs that are.
SELECT task, CAST(sum(completed) AS {bigint}), CAST(sum(failed) AS {bigint}), CAST(sum(timed_out) AS {bigint}),
    CAST(sum(cancelled) AS {bigint}), CAST(sum(lost) AS {bigint}), CAST(sum(skipped) AS {bigint}), count(*)
FROM {jobs} WHERE deleted_at IS NULL GROUP BY task ORDER BY task

-- name: newest_runs
-- The newest runs: task, how they ended, how long they took, how late they started (in microseconds), their account.
SELECT t.task, t.result, t.finished_at - t.started_at, t.started_at - t.run_at, t.account FROM (
    SELECT task, result, run_at, started_at, finished_at, account FROM {executions} ORDER BY id DESC LIMIT :limit) AS t
WHERE t.started_at IS NOT NULL

-- name: newest_runs_of
-- The same of one job.
SELECT t.task, t.result, t.finished_at - t.started_at, t.started_at - t.run_at, t.account FROM (
    SELECT task, result, run_at, started_at, finished_at, account FROM {executions} WHERE job_id = :job AND step = ''
    ORDER BY number DESC, step DESC, attempt DESC LIMIT :limit) AS t
WHERE t.started_at IS NOT NULL

-- name: last_seen
-- When anybody who works was seen last.
SELECT max(renewed_at) FROM {workers}

-- name: at_work
-- Who works now, how much they could run at once, and how much they do.
SELECT count(*), CAST(coalesce(sum(concurrency), 0) AS {bigint}),
    (SELECT count(*) FROM {live} AS l WHERE l.worker_id IS NOT NULL)
FROM {workers} WHERE closed_at IS NULL AND lease_until > :now

-- name: failures_lately
-- The newest failures since an id: their job, its kind, names and counters, and the error.
SELECT e.job_id, j.kind, e.task, coalesce(nullif(j.name, ''), j.key), j.completed, j.failed + j.timed_out + j.lost,
    coalesce(e.error, e.error_kind, e.result)
FROM (SELECT x.id, x.job_id, x.task, x.result, x.error, x.error_kind FROM {executions} AS x
    WHERE x.id >= CAST(:from_id AS {uuid}) AND x.result <> 'completed' AND x.result <> 'cancelled' AND x.step = ''
    ORDER BY x.id DESC LIMIT :most) AS e
JOIN {jobs} AS j ON j.id = e.job_id
WHERE j.deleted_at IS NULL
ORDER BY e.id DESC

-- name: ends_of_each [postgres]
-- The newest few executions of each of these jobs: how many ended how since an instant.
SELECT e.job_id, e.result, count(*)
FROM {jobs} AS j CROSS JOIN LATERAL (
    SELECT x.job_id, x.result, x.finished_at FROM {executions} AS x WHERE x.job_id = j.id AND x.step = ''
    ORDER BY x.number DESC, x.step DESC, x.attempt DESC LIMIT :limit) AS e
WHERE j.id {in: ids uuid} AND e.finished_at >= CAST(:since AS {instant})
GROUP BY e.job_id, e.result

-- name: ends_of_each [sqlite]
SELECT e.job_id, e.result, count(*)
FROM {jobs} AS j CROSS JOIN {executions} AS e
WHERE j.id {in: ids uuid} AND e.finished_at >= :since AND e.id IN (
    SELECT x.id FROM {executions} AS x WHERE x.job_id = j.id AND x.step = ''
    ORDER BY x.number DESC, x.step DESC, x.attempt DESC LIMIT :limit)
GROUP BY e.job_id, e.result

-- name: run_once_lately
-- The newest executions since an id that belong to run-once jobs: how many ended how, by task.
SELECT e.task, e.result, count(*)
FROM (SELECT x.job_id, x.task, x.result FROM {executions} AS x
    WHERE x.id >= CAST(:from_id AS {uuid}) AND x.step = '' ORDER BY x.id DESC LIMIT :most) AS e
JOIN {jobs} AS j ON j.id = e.job_id
WHERE j.kind = 'once' AND j.deleted_at IS NULL
GROUP BY e.task, e.result
