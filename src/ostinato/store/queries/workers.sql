-- Workers and queues.

-- name: insert_worker
INSERT INTO {workers} (id, app, host, pid, version, tasks, queues, concurrency, running, started_at, renewed_at,
    lease_until, drain_asked_at, closed_at, closed_as)
VALUES (:id, :app, :host, :pid, :version, :tasks, :queues, :concurrency, 0, :now, :now, :lease_until, NULL, NULL, NULL)

-- name: renew
-- Renew the lease, and return the identity of the database. No row for a closed worker, and none in a database that has
-- lost the renewal this worker knows.
UPDATE {workers} SET renewed_at = :now, lease_until = :lease_until, running = :running
WHERE id = :id AND closed_at IS NULL AND renewed_at >= :at_least
RETURNING drain_asked_at, (SELECT value FROM {meta} WHERE key = 'database_id'),
    (SELECT value FROM {meta} WHERE key = 'generation')

-- name: close_worker
UPDATE {workers} SET closed_at = :now, closed_as = :closed_as, running = 0 WHERE id = :id AND closed_at IS NULL

-- name: lock_worker
-- Locks a worker: none of its claims is under way.
SELECT id, renewed_at, lease_until, closed_at FROM {workers} WHERE id = :id {for_update}

-- name: open_queues [postgres]
-- The queues that are not paused, for a worker that is not closed and whose last renewal the database has. Its row
-- cannot be closed before the claim has ended (renewals do not wait). The share lock makes a pause wait for a claim
-- under way, and a claim for a pause.
WITH me AS MATERIALIZED (SELECT id FROM {workers}
        WHERE id = :worker AND closed_at IS NULL AND renewed_at >= :at_least FOR KEY SHARE),
    open AS MATERIALIZED (SELECT name, max_queued FROM {queues} WHERE paused_at IS NULL FOR SHARE)
SELECT open.name, open.max_queued FROM me CROSS JOIN open

-- name: open_queues [sqlite]
SELECT q.name, q.max_queued FROM {workers} AS w CROSS JOIN {queues} AS q
WHERE w.id = :worker AND w.closed_at IS NULL AND w.renewed_at >= :at_least AND q.paused_at IS NULL

-- name: open_leases
-- Workers that are open.
SELECT id, renewed_at, lease_until FROM {workers} WHERE closed_at IS NULL

-- name: last_worker_seen
-- The worker that renewed last, except those that have just started.
SELECT renewed_at, closed_as FROM {workers} WHERE started_at < :since OR started_at > :now
ORDER BY renewed_at DESC LIMIT 1

-- name: lately_closed
-- A worker that was closed since then.
SELECT id FROM {workers} WHERE closed_at >= :since LIMIT 1

-- name: list_workers
SELECT id, app, host, pid, version, tasks, queues, concurrency, running, started_at, renewed_at, lease_until,
    drain_asked_at, closed_at, closed_as
FROM {workers} WHERE renewed_at >= :since ORDER BY id DESC LIMIT :limit

-- name: ask_to_drain
UPDATE {workers} SET drain_asked_at = :now WHERE id = :id AND closed_at IS NULL

-- name: known_tasks
-- Task lists of the workers seen since then.
SELECT DISTINCT tasks FROM {workers} WHERE renewed_at >= :since

-- name: describe_tasks
-- The worker that started last describes a task.
INSERT INTO {task_schemas} AS t (name, described)
SELECT u.name, u.described FROM {rows: name text, described json} WHERE true
ON CONFLICT (name) DO UPDATE SET described = excluded.described WHERE excluded.described <> t.described

-- name: task_schemas
SELECT name, described FROM {task_schemas} WHERE name {in: names text}

-- name: described_tasks
SELECT name FROM {task_schemas}

-- name: forget_tasks
DELETE FROM {task_schemas} WHERE name {in: names text}

-- name: delete_old_workers
DELETE FROM {workers} WHERE closed_at IS NOT NULL AND renewed_at < :before

-- name: add_queues
INSERT INTO {queues} (name, paused_at, paused_by, max_queued)
SELECT u.name, NULL, '', NULL FROM {rows: name text} WHERE true ON CONFLICT (name) DO NOTHING

-- name: set_queue_pause
UPDATE {queues} SET paused_at = :paused_at, paused_by = :by WHERE name = :name

-- name: lock_queue
SELECT name, paused_at, paused_by, max_queued FROM {queues} WHERE name = :name {for_update}

-- name: set_queue_bound
UPDATE {queues} SET max_queued = :max_queued WHERE name = :name

-- name: list_queues
-- Every queue with its waiting and running executions.
SELECT q.name, q.paused_at, q.paused_by, q.max_queued,
    coalesce(n.queued, 0), coalesce(n.running, 0)
FROM {queues} AS q LEFT JOIN (
    SELECT l.queue, sum(CASE WHEN l.worker_id IS NULL THEN 1 ELSE 0 END) AS queued,
        sum(CASE WHEN l.worker_id IS NULL THEN 0 ELSE 1 END) AS running
    FROM {live} AS l GROUP BY l.queue) AS n ON n.queue = q.name
ORDER BY q.name

-- name: identity
-- The identity of this database: made with the schema; a restore changes the generation.
SELECT (SELECT value FROM {meta} WHERE key = 'database_id'), (SELECT value FROM {meta} WHERE key = 'generation')

-- name: remembered
-- A note that the database stores for us.
SELECT value FROM {meta} WHERE key = :key

-- name: remember
INSERT INTO {meta} (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value
