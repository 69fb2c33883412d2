-- Queries of the dashboard only.

-- name: newest_of_each [postgres]
-- The newest few ended executions of each of these jobs, without results and messages.
SELECT e.job_id, e.id, e.number, e.attempt, e.outcome, e.due_at, e.started_at, e.finished_at, e.error_kind
FROM {jobs} AS j CROSS JOIN LATERAL (
    SELECT x.job_id, x.id, x.number, x.attempt, x.outcome, x.due_at, x.started_at, x.finished_at, x.error_kind
    FROM {executions} AS x WHERE x.job_id = j.id AND x.step = ''
    ORDER BY x.number DESC, x.step DESC, x.attempt DESC LIMIT :limit) AS e
WHERE j.id {in: ids uuid}
ORDER BY e.job_id, e.number, e.attempt

-- name: newest_of_each [sqlite]
SELECT e.job_id, e.id, e.number, e.attempt, e.outcome, e.due_at, e.started_at, e.finished_at, e.error_kind
FROM {jobs} AS j CROSS JOIN {executions} AS e
WHERE j.id {in: ids uuid} AND e.id IN (
    SELECT x.id FROM {executions} AS x WHERE x.job_id = j.id AND x.step = ''
    ORDER BY x.number DESC, x.step DESC, x.attempt DESC LIMIT :limit)
ORDER BY e.job_id, e.number, e.attempt

-- name: soonest
-- The jobs that are due next.
SELECT id FROM {jobs} WHERE next_due_at IS NOT NULL ORDER BY next_due_at LIMIT :limit

-- name: schedules_to_come
-- The schedules of jobs due before an instant, the hour of their next time, and the number of jobs that share them.
SELECT schedule, policies, min(next_due_at), count(*) FROM {jobs}
WHERE next_due_at IS NOT NULL AND next_due_at < CAST(:until AS {instant})
GROUP BY schedule, policies, next_due_at / 3600000000

-- name: jobs_to_come
-- The jobs with one of these schedules that are due before an instant, with their schedules.
SELECT id, schedule, policies, next_due_at FROM {jobs}
WHERE next_due_at IS NOT NULL AND next_due_at < CAST(:until AS {instant}) AND schedule {in: schedules text}
ORDER BY next_due_at

-- name: running_some
-- Some running executions, the latest start first.
SELECT {columns live}
FROM {live} AS l WHERE step = '' AND (worker_id IS NOT NULL OR waits_for = 'steps')
  AND job_id NOT IN (SELECT d.id FROM {jobs} AS d WHERE d.deleted_at IS NOT NULL)
ORDER BY started_at DESC LIMIT :limit

-- name: failed_some
-- The latest failed executions.
SELECT e.id FROM {executions} AS e
WHERE e.outcome <> 'completed' AND e.outcome <> 'cancelled' AND e.step = ''
  AND e.job_id NOT IN (SELECT d.id FROM {jobs} AS d WHERE d.deleted_at IS NOT NULL)
ORDER BY e.id DESC LIMIT :limit

-- name: queued_between
-- Executions that have ended, by when they were queued, the newest first.
SELECT id FROM {executions}
WHERE id >= CAST(:from_id AS {uuid}) AND id < CAST(:to_id AS {uuid}) AND step = ''
  AND job_id NOT IN (SELECT d.id FROM {jobs} AS d WHERE d.deleted_at IS NOT NULL)
ORDER BY id DESC LIMIT :limit
