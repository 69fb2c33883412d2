-- Taking one job, for a worker that is called for it.

-- name: take_one
-- Start one row of a job that is locked by this transaction.
UPDATE {live} SET worker_id = :worker, started_at = :now, fence = :fence, version = :job_version, waits_for = NULL,
    progress = NULL
WHERE id = :id

-- name: jobs_awaited
-- List the next job ids after `after` that have a next due time or a live row (queued, waiting or running).
SELECT j.id FROM {jobs} AS j
WHERE j.id > :after AND j.deleted_at IS NULL AND (j.next_due_at IS NOT NULL
    OR EXISTS (SELECT 1 FROM {live} AS l WHERE l.job_id = j.id))
ORDER BY j.id LIMIT :limit

-- name: share_open_queues [postgres]
-- The queues that are not paused, for a worker that was called for a job: a pause waits for it, and it for a pause.
SELECT name FROM {queues} WHERE paused_at IS NULL FOR SHARE

-- name: share_open_queues [sqlite]
SELECT name FROM {queues} WHERE paused_at IS NULL

-- name: closed_queues
SELECT name FROM {queues} WHERE paused_at IS NOT NULL

-- name: forget_predecessors
-- Rows that a process has already closed: of a process that takes a lease for each run, the newest is enough.
DELETE FROM {workers} WHERE host = :host AND pid = :pid AND closed_at IS NOT NULL

-- name: park
-- Rows of a job that is locked by this transaction, whose task this worker does not know: back to the queue, until
-- a worker comes that knows it.
UPDATE {live} SET waits_for = 'task' WHERE id {in: ids uuid}
