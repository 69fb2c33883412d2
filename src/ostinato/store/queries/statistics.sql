-- Figures. Totals come from the counters of jobs; figures of single runs come from the newest few only.

-- name: counters_by_task
-- The counters of the jobs of each task since their creation, and the number of jobs.
SELECT task, CAST(sum(completed) AS {bigint}), CAST(sum(failed) AS {bigint}), CAST(sum(timed_out) AS {bigint}),
    CAST(sum(cancelled) AS {bigint}), CAST(sum(lost) AS {bigint}), CAST(sum(skipped) AS {bigint}), count(*)
FROM {jobs} WHERE deleted_at IS NULL GROUP BY task ORDER BY task

-- name: newest_runs
-- The newest runs: task, result, duration, delay of the start (in microseconds), account.
SELECT t.task, t.outcome, t.finished_at - t.started_at, t.started_at - t.run_at, t.account FROM (
    SELECT task, outcome, run_at, started_at, finished_at, account FROM {executions} ORDER BY id DESC LIMIT :limit) AS t
WHERE t.started_at IS NOT NULL

-- name: newest_runs_of
-- The same for one job.
SELECT t.task, t.outcome, t.finished_at - t.started_at, t.started_at - t.run_at, t.account FROM (
    SELECT task, outcome, run_at, started_at, finished_at, account FROM {executions} WHERE job_id = :job AND step = ''
    ORDER BY number DESC, step DESC, attempt DESC LIMIT :limit) AS t
WHERE t.started_at IS NOT NULL

-- name: last_seen
-- The last time any worker was seen.
SELECT max(renewed_at) FROM {workers}

-- name: at_work
-- The open workers, their concurrency, and their running executions.
SELECT count(*), CAST(coalesce(sum(concurrency), 0) AS {bigint}),
    (SELECT count(*) FROM {live} AS l WHERE l.worker_id IS NOT NULL)
FROM {workers} WHERE closed_at IS NULL AND lease_until > :now

-- name: failures_lately
-- The newest failures since an id: their job, its kind, names and counters, and the error.
SELECT e.job_id, j.kind, e.task, coalesce(nullif(j.name, ''), j.key), j.completed, j.failed + j.timed_out + j.lost,
    coalesce(e.error, e.error_kind, e.outcome)
FROM (SELECT x.id, x.job_id, x.task, x.outcome, x.error, x.error_kind FROM {executions} AS x
    WHERE x.id >= CAST(:from_id AS {uuid}) AND x.outcome <> 'completed' AND x.outcome <> 'cancelled' AND x.step = ''
    ORDER BY x.id DESC LIMIT :most) AS e
JOIN {jobs} AS j ON j.id = e.job_id
WHERE j.deleted_at IS NULL
ORDER BY e.id DESC

-- name: ends_of_each [postgres]
-- The newest few executions of each of these jobs, counted by result since an instant.
SELECT e.job_id, e.outcome, count(*)
FROM {jobs} AS j CROSS JOIN LATERAL (
    SELECT x.job_id, x.outcome, x.finished_at FROM {executions} AS x WHERE x.job_id = j.id AND x.step = ''
    ORDER BY x.number DESC, x.step DESC, x.attempt DESC LIMIT :limit) AS e
WHERE j.id {in: ids uuid} AND e.finished_at >= CAST(:since AS {instant})
GROUP BY e.job_id, e.outcome

-- name: ends_of_each [sqlite]
SELECT e.job_id, e.outcome, count(*)
FROM {jobs} AS j CROSS JOIN {executions} AS e
WHERE j.id {in: ids uuid} AND e.finished_at >= :since AND e.id IN (
    SELECT x.id FROM {executions} AS x WHERE x.job_id = j.id AND x.step = ''
    ORDER BY x.number DESC, x.step DESC, x.attempt DESC LIMIT :limit)
GROUP BY e.job_id, e.outcome

-- name: run_once_lately
-- The newest executions since an id that belong to run-once jobs, counted by result and task.
SELECT e.task, e.outcome, count(*)
FROM (SELECT x.job_id, x.task, x.outcome FROM {executions} AS x
    WHERE x.id >= CAST(:from_id AS {uuid}) AND x.step = '' ORDER BY x.id DESC LIMIT :most) AS e
JOIN {jobs} AS j ON j.id = e.job_id
WHERE j.kind = 'once' AND j.deleted_at IS NULL
GROUP BY e.task, e.outcome
