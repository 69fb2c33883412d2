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
