-- Rows of one occurrence, for `why`.

-- name: occurrences_until
-- The newest occurrences of a job that were due by an instant. Numbers follow the due times, except for manual runs.
SELECT number, due_at FROM {executions} WHERE job_id = :job AND step = '' AND due_at <= :until
ORDER BY number DESC, step DESC, attempt DESC LIMIT :limit

-- name: attempts_at
-- The ended attempts of one occurrence, or of one of its steps, the first attempt first.
SELECT {columns executions}
FROM {executions} WHERE job_id = :job AND number = :number AND step = :step ORDER BY attempt

-- name: ended_between
-- A run of another occurrence of a job that was under way at an instant, if it is among the newest few before a number.
SELECT t.id FROM (
    SELECT id, started_at, finished_at FROM {executions} WHERE job_id = :job AND step = '' AND number < :number
    ORDER BY number DESC, step DESC, attempt DESC LIMIT 20) AS t
WHERE t.started_at <= :until AND t.finished_at > :since ORDER BY t.finished_at DESC LIMIT 1

-- name: skip_until
-- The newest skip of a job that begins by an instant.
SELECT {columns skips} FROM {skips}
WHERE job_id = :job AND first_due_at <= :until ORDER BY last_due_at DESC LIMIT 1

-- name: events_until
-- Commands on a job up to an instant, the newest first.
SELECT {columns events} FROM {events}
WHERE job_id = :job AND at <= :until AND kind IN ('job.paused', 'job.resumed', 'job.cancelled')
ORDER BY id DESC LIMIT :limit

-- name: queue_events_until
-- Pauses and resumes of queues, among the newest events up to an id.
SELECT {columns events as e} FROM (
    SELECT {columns events} FROM {events} WHERE id < :before
    ORDER BY id DESC LIMIT :limit) AS e
WHERE e.kind IN ('queue.paused', 'queue.resumed') ORDER BY e.id DESC

-- name: paused_queues
-- The queues that are paused, since when, and by whom.
SELECT name, paused_at, paused_by FROM {queues} WHERE paused_at IS NOT NULL

-- name: workers_since
-- Workers seen at or after an instant, the first to leave first.
SELECT id, app, host, pid, version, tasks, queues, concurrency, running, started_at, renewed_at, lease_until,
    drain_asked_at, closed_at, closed_as
FROM {workers} WHERE renewed_at >= :since ORDER BY renewed_at LIMIT :limit

-- name: worker_before
-- The worker seen last before an instant.
SELECT id, app, host, pid, version, tasks, queues, concurrency, running, started_at, renewed_at, lease_until,
    drain_asked_at, closed_at, closed_as
FROM {workers} WHERE renewed_at < :since ORDER BY renewed_at DESC LIMIT 1
