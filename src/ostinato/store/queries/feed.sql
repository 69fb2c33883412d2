-- What has happened since, for the live feed.

-- name: events_since
-- Events from an id on, the oldest first.
SELECT id, at, kind, job_id, execution_id, worker_id, by, data FROM {events}
WHERE id >= :after AND (CAST(:job AS {uuid}) IS NULL OR job_id = CAST(:job AS {uuid}))
ORDER BY id LIMIT :limit

-- name: live_ids
-- Everything that is live, the oldest first.
SELECT id FROM {live} WHERE (CAST(:job AS {uuid}) IS NULL OR job_id = CAST(:job AS {uuid})) ORDER BY id

-- name: running_now
-- What runs.
SELECT id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task, step, slot,
    waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint, progress,
    cancel_asked_at, cancel_by, limit_key
FROM {live} WHERE worker_id IS NOT NULL AND (CAST(:job AS {uuid}) IS NULL OR job_id = CAST(:job AS {uuid}))
ORDER BY started_at

-- name: ended_since
-- What was queued from an id on and finished from an instant on, in the order in which it was queued.
SELECT id, job_id, number, step, attempt, execution_number, asked, due_at, run_at, queued_at, started_at, finished_at,
    result, task, queue, worker_id, fence, version, args, value, error_kind, error, traceback, failures, losses, releases,
    checkpoint, by, account
FROM {executions} WHERE id >= :after AND finished_at >= :since ORDER BY id LIMIT :limit

-- name: ended_since_of
-- The same of one job.
SELECT id, job_id, number, step, attempt, execution_number, asked, due_at, run_at, queued_at, started_at, finished_at,
    result, task, queue, worker_id, fence, version, args, value, error_kind, error, traceback, failures, losses, releases,
    checkpoint, by, account
FROM {executions} WHERE job_id = :job AND id >= :after AND finished_at >= :since ORDER BY id LIMIT :limit

-- name: ended_ids
-- What has ended of all that was queued from an id on.
SELECT id FROM {executions}
WHERE id >= :after AND (CAST(:job AS {uuid}) IS NULL OR job_id = CAST(:job AS {uuid}))
