-- Queries of `ostinato doctor`.

-- name: database_version [postgres]
SELECT current_setting('server_version')

-- name: database_version [sqlite]
SELECT sqlite_version()

-- name: wanted
-- Jobs that have not ended, counted by task and queue.
SELECT task, queue, count(*) FROM {jobs}
WHERE deleted_at IS NULL AND cancelled_at IS NULL AND ended_at IS NULL
GROUP BY task, queue ORDER BY task, queue

-- name: backlog
-- Executions that could have started by now, counted by queue, and the oldest of each.
SELECT queue, count(*), min(run_at) FROM {live}
WHERE waits_for IS NULL AND worker_id IS NULL AND run_at <= :now
GROUP BY queue ORDER BY queue

-- name: unfired
-- Jobs whose due time has passed without being fired, and the oldest of these times.
SELECT count(*), min(next_due_at) FROM {jobs} WHERE next_due_at < :before AND aside_until IS NULL

-- name: jobs_aside
-- Jobs that no rule could deal with.
SELECT count(*) FROM {jobs} WHERE aside_until IS NOT NULL AND deleted_at IS NULL

-- name: unsaved_results
-- Executions whose body has run and whose result could not be saved: their workers hold them.
SELECT count(*) FROM {live} AS l WHERE l.worker_id IS NOT NULL AND EXISTS (
    SELECT 1 FROM {events} AS e WHERE e.job_id = l.job_id AND e.execution_id = l.id AND e.kind = 'result.held'
        AND e.worker_id = l.worker_id)

-- name: naming_secrets
-- Jobs that have not ended, of the built-in tasks whose args can name a secret.
SELECT key, name, task, args FROM {jobs}
WHERE task {in: tasks text} AND deleted_at IS NULL AND cancelled_at IS NULL AND ended_at IS NULL
ORDER BY id LIMIT :limit
