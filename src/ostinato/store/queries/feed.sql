-- Queries of the live feed.

-- name: events_since
-- Events from an id on, the oldest first.
SELECT {columns events} FROM {events}
WHERE id >= :after AND (CAST(:job AS {uuid}) IS NULL OR job_id = CAST(:job AS {uuid}))
ORDER BY id LIMIT :limit

-- name: live_ids
-- All live rows, the oldest first.
SELECT id FROM {live} WHERE (CAST(:job AS {uuid}) IS NULL OR job_id = CAST(:job AS {uuid})) ORDER BY id

-- name: running_now
-- Running rows.
SELECT {columns live}
FROM {live} WHERE worker_id IS NOT NULL AND (CAST(:job AS {uuid}) IS NULL OR job_id = CAST(:job AS {uuid}))
ORDER BY started_at

-- name: ended_since
-- Executions queued from an id on and finished from an instant on, in the order in which they were queued.
SELECT {columns executions}
FROM {executions} WHERE id >= :after AND finished_at >= :since ORDER BY id LIMIT :limit

-- name: ended_since_of
-- The same for one job.
SELECT {columns executions}
FROM {executions} WHERE job_id = :job AND id >= :after AND finished_at >= :since ORDER BY id LIMIT :limit

-- name: ended_ids
-- Ids of ended executions that were queued from an id on.
SELECT id FROM {executions}
WHERE id >= :after AND (CAST(:job AS {uuid}) IS NULL OR job_id = CAST(:job AS {uuid}))
