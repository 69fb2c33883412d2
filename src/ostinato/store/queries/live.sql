-- What is queued or running now.

-- name: insert_live
-- Executions that are queued from now on.
INSERT INTO {live} (id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task,
    step, slot, waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint, progress,
    cancel_asked_at, cancel_by, limit_key)
SELECT u.id, u.job_id, u.number, u.attempt, u.execution_number, u.asked, u.due_at, u.run_at, u.queued_at, u.queue,
    u.priority, u.task, u.step, u.slot, u.waits_for, u.fence, u.worker_id, u.started_at, u.version, u.args, u.failures,
    u.losses, u.releases, u.checkpoint, u.progress, u.cancel_asked_at, u.cancel_by, u.limit_key
FROM {rows: id uuid, job_id uuid, number bigint, attempt bigint, execution_number bigint, asked text, due_at instant, run_at instant, queued_at instant, queue text, priority bigint, task text, step text, slot bigint, waits_for text, fence bigint, worker_id uuid, started_at instant, version bigint, args json, failures bigint, losses bigint, releases bigint, checkpoint json, progress json, cancel_asked_at instant, cancel_by text, limit_key text}
WHERE true

-- name: insert_alike_live
-- The same for jobs that differ only in id and args.
INSERT INTO {live} (id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task, step,
    slot, waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint,
    progress, cancel_asked_at, cancel_by, limit_key)
SELECT u.id, u.job_id, {shared: number bigint, attempt bigint, execution_number bigint, asked text, due_at instant, run_at instant, queued_at instant, queue text, priority bigint, task text, step text, slot bigint, waits_for text, fence bigint, worker_id uuid, started_at instant, version bigint, args json, failures bigint, losses bigint, releases bigint, checkpoint json, progress json, cancel_asked_at instant, cancel_by text, limit_key text}
FROM {rows: id uuid, job_id uuid}

-- name: queue_fired
-- The same for the first attempts that plain firings queue: all but their ids stands in the rows of their jobs.
INSERT INTO {live} (id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task,
    step, slot, fence, failures, losses, releases, cancel_by)
SELECT u.id, j.id, j.last_number, 0, j.last_execution_number, 'schedule', j.last_due_at, j.last_due_at, :now, j.queue,
    j.priority, j.task, '', 0, 0, 0, 0, 0, ''
FROM {rows: id uuid, job_id uuid} CROSS JOIN {jobs} AS j WHERE {found_by: j.id u.job_id}

-- name: update_live
-- Live rows that a rule has changed, under their job's lock.
UPDATE {live} AS l SET asked = u.asked, due_at = u.due_at, run_at = u.run_at, queued_at = u.queued_at, queue = u.queue,
    priority = u.priority, task = u.task, slot = u.slot, waits_for = u.waits_for, fence = u.fence, worker_id = u.worker_id,
    started_at = u.started_at, version = u.version, args = u.args, failures = u.failures, losses = u.losses,
    releases = u.releases, checkpoint = u.checkpoint, progress = u.progress, cancel_asked_at = u.cancel_asked_at,
    cancel_by = u.cancel_by, limit_key = u.limit_key
FROM {rows: id uuid, asked text, due_at instant, run_at instant, queued_at instant, queue text, priority bigint, task text, slot bigint, waits_for text, fence bigint, worker_id uuid, started_at instant, version bigint, args json, failures bigint, losses bigint, releases bigint, checkpoint json, progress json, cancel_asked_at instant, cancel_by text, limit_key text}
WHERE {found_by: l.id u.id}

-- name: delete_live
-- Executions that have ended, or were withdrawn.
DELETE FROM {live} WHERE id {in: ids uuid}

-- name: lock_live
-- All live rows of jobs that are locked by this transaction.
SELECT id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task, step, slot,
    waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint, progress,
    cancel_asked_at, cancel_by, limit_key
FROM {live} WHERE job_id {in: ids uuid} ORDER BY job_id, id {for_update}

-- name: live_of
-- All live rows of jobs, unlocked.
SELECT id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task, step, slot,
    waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint, progress,
    cancel_asked_at, cancel_by, limit_key
FROM {live} WHERE job_id {in: ids uuid} ORDER BY id

-- name: live_by_id
-- Live rows by their ids, unlocked.
SELECT id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task, step, slot,
    waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint, progress,
    cancel_asked_at, cancel_by, limit_key
FROM {live} WHERE id {in: ids uuid}

-- name: list_live
-- What is queued or running, newest first.
SELECT id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task, step, slot,
    waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint, progress,
    cancel_asked_at, cancel_by, limit_key
FROM {live}
WHERE (CAST(:job AS {uuid}) IS NULL OR job_id = CAST(:job AS {uuid}))
  AND (CAST(:before AS {uuid}) IS NULL OR id < CAST(:before AS {uuid}))
ORDER BY id DESC LIMIT :limit

-- name: time_has_come [postgres]
-- What waited for a time may start: backoff, deferrals, windows. (An array is looked up row by row, never joined.)
UPDATE {live} SET waits_for = CASE WHEN limit_key IS NULL THEN NULL ELSE 'limit' END WHERE id = ANY (ARRAY(
    SELECT id FROM {live} WHERE waits_for = 'time' AND run_at <= :now
    ORDER BY run_at LIMIT :limit FOR UPDATE SKIP LOCKED))

-- name: time_has_come [sqlite]
UPDATE {live} SET waits_for = CASE WHEN limit_key IS NULL THEN NULL ELSE 'limit' END WHERE id IN (
    SELECT id FROM {live} WHERE waits_for = 'time' AND run_at <= :now ORDER BY run_at LIMIT :limit)

-- name: next_waiting
-- When the next of those may start.
SELECT min(run_at) FROM {live} WHERE waits_for = 'time'

-- What may start now in these queues: strictly by priority, then the oldest. On PostgreSQL one range of the index per
-- queue and priority, so that rows of the near future are never walked over; on SQLite the inner query takes the first
-- few of each queue by the index, and only those are sorted together.
-- part: first_of_postgres
SELECT picked.id, picked.task FROM generate_series(1, 10) AS p(priority) CROSS JOIN LATERAL (
    SELECT one.id, one.task FROM {rows: name text} CROSS JOIN LATERAL (
        SELECT l.id, l.task, l.run_at FROM {live} AS l
        WHERE l.queue = u.name AND l.priority = p.priority AND l.waits_for IS NULL AND l.run_at <= :now
          AND l.worker_id IS NULL
        ORDER BY l.run_at, l.id LIMIT :limit {for_update_skip_locked of l}) AS one
    ORDER BY one.run_at, one.id LIMIT :limit) AS picked
LIMIT :limit

-- part: first_of_sqlite
l.id IN (SELECT x.id FROM {live} AS x
    WHERE x.queue = u.name AND x.waits_for IS NULL AND x.worker_id IS NULL AND x.run_at <= :now
    ORDER BY x.priority, x.run_at, x.id LIMIT :limit)

-- name: park_strangers [postgres]
-- What is first in line and known to nobody here: out of the claim index, until somebody comes who knows it.
UPDATE {live} SET waits_for = 'task' WHERE id = ANY (ARRAY(
    SELECT f.id FROM ({part first_of_postgres}) AS f WHERE NOT f.task {in: tasks text})) RETURNING task

-- name: park_strangers [sqlite]
UPDATE {live} SET waits_for = 'task' WHERE id IN (
    SELECT l.id FROM {rows: name text} CROSS JOIN {live} AS l WHERE {part first_of_sqlite}
    ORDER BY l.priority, l.run_at, l.id LIMIT :limit) AND NOT task {in: tasks text} RETURNING task

-- name: claim [postgres]
-- Take and start what may start now and is known here; with the definitions, which costs less than asking for them, and
-- with a look of its own at which queues are open (as `open_queues` does): a whole claim can be one round trip. The
-- worker is locked before the queues, and a queue before its rows, as everywhere.
WITH me AS MATERIALIZED (SELECT id FROM {workers}
        WHERE id = :worker AND closed_at IS NULL AND renewed_at >= :at_least FOR KEY SHARE),
    open AS MATERIALIZED (SELECT name, max_queued FROM {queues}
        WHERE EXISTS (SELECT 1 FROM me) AND paused_at IS NULL AND (:every_queue OR name {in: queues text}) FOR SHARE),
    first AS MATERIALIZED (
        SELECT picked.id FROM generate_series(1, 10) AS p(priority) CROSS JOIN LATERAL (
            SELECT one.id FROM open CROSS JOIN LATERAL (
                SELECT l.id, l.run_at FROM {live} AS l
                WHERE l.queue = open.name AND l.priority = p.priority AND l.waits_for IS NULL AND l.run_at <= :now
                  AND l.worker_id IS NULL
                ORDER BY l.run_at, l.id LIMIT :limit FOR UPDATE OF l SKIP LOCKED) AS one
            ORDER BY one.run_at, one.id LIMIT :limit) AS picked
        LIMIT :limit)
UPDATE {live} AS l SET worker_id = :worker, started_at = {greatest}(:now, l.queued_at), fence = fence + 1,
    progress = NULL, version = j.version
FROM {jobs} AS j
WHERE l.id = ANY (ARRAY(SELECT f.id FROM first AS f)) AND l.task {in: tasks text} AND {found_by: j.id l.job_id}
RETURNING l.id, l.job_id, l.number, l.attempt, l.execution_number, l.asked, l.due_at, l.run_at, l.queued_at, l.queue,
    l.priority, l.task, l.step, l.slot, l.fence, l.version, l.args, l.failures, l.losses, l.releases, l.checkpoint,
    l.cancel_asked_at, l.cancel_by, l.limit_key,
    j.id, j.version, j.app, j.key, j.name, j.description, j.task, j.args, j.queue, j.priority, j.schedule, j.policies,
    j.tags, j.metadata, j.owner, j.declared,
    (SELECT open.max_queued IS NOT NULL FROM open WHERE open.name = l.queue)

-- part: started
l.id, l.job_id, l.number, l.attempt, l.execution_number, l.asked, l.due_at, l.run_at, l.queued_at, l.queue, l.priority,
    l.task, l.step, l.slot, l.fence + 1, j.version, l.args, l.failures, l.losses, l.releases, l.checkpoint,
    l.cancel_asked_at, l.cancel_by, l.limit_key

-- name: claim [sqlite]
-- What `start` is to take, as it will be then. SQLite is slow to return what it changes (10 µs a row), and here nobody
-- else writes between the two.
SELECT {part started},
    j.id, j.version, j.app, j.key, j.name, j.description, j.task, j.args, j.queue, j.priority, j.schedule, j.policies,
    j.tags, j.metadata, j.owner, j.declared
FROM (SELECT l.id FROM {rows: name text} CROSS JOIN {live} AS l WHERE {part first_of_sqlite}
        ORDER BY l.priority, l.run_at, l.id LIMIT :limit) AS f CROSS JOIN {live} AS l CROSS JOIN {jobs} AS j
WHERE l.id = f.id AND l.task {in: tasks text} AND j.id = l.job_id

-- name: claim_of_known
-- The same without the definitions, for who knows them; on SQLite too. Sorted, so that all is found in one step, without
-- Python's lock: what was claimed before runs meanwhile. (The rows of a statement that is not sorted ask for the lock one
-- by one, and wait for it each time.)
SELECT {part started}
FROM {rows: name text} CROSS JOIN {live} AS l CROSS JOIN {jobs} AS j
WHERE {part first_of_sqlite}
    AND l.task {in: tasks text} AND j.id = l.job_id
ORDER BY l.priority, l.run_at, l.id LIMIT :limit

-- name: start
-- The second half of a claim on SQLite.
UPDATE {live} SET worker_id = :worker, started_at = :now, fence = fence + 1, progress = NULL,
    version = (SELECT j.version FROM {jobs} AS j WHERE j.id = {live}.job_id)
WHERE id {in: ids uuid}

-- name: take_one
-- Start one row of a job that is locked by this transaction.
UPDATE {live} SET worker_id = :worker, started_at = :now, fence = :fence, version = :job_version, waits_for = NULL,
    progress = NULL
WHERE id = :id

-- name: put_off
-- Just claimed, but their definition cannot be read here: back, until later.
UPDATE {live} SET worker_id = NULL, started_at = NULL, version = NULL, waits_for = 'time', run_at = :until
WHERE id {in: ids uuid} AND worker_id = :worker

-- name: park
-- The same for rows of a job that is locked by this transaction.
UPDATE {live} SET waits_for = 'task' WHERE id {in: ids uuid}

-- name: unpark [postgres]
-- Tasks that this worker knows may start again.
UPDATE {live} SET waits_for = CASE WHEN limit_key IS NULL THEN NULL ELSE 'limit' END WHERE id = ANY (ARRAY(
    SELECT id FROM {live} WHERE waits_for = 'task' AND task {in: tasks text} AND queue {in: queues text}
    ORDER BY priority, run_at LIMIT :limit FOR UPDATE SKIP LOCKED))

-- name: unpark [sqlite]
UPDATE {live} SET waits_for = CASE WHEN limit_key IS NULL THEN NULL ELSE 'limit' END WHERE id IN (
    SELECT id FROM {live} WHERE waits_for = 'task' AND task {in: tasks text} AND queue {in: queues text}
    ORDER BY priority, run_at LIMIT :limit)

-- name: parked_tasks
-- Tasks that nobody could run when their time came.
SELECT task, count(*), min(run_at) FROM {live} WHERE waits_for = 'task' GROUP BY task ORDER BY task

-- name: outlook
-- When the next row of these queues may start, if they are open: the first of each range of the claim index. A time that
-- has come means a row that another claim has locked, or of a task that is not known here. And whether others have set apart what this worker knows.
WITH p(priority) AS (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10))
SELECT min(t.at), EXISTS (SELECT 1 FROM {live} WHERE waits_for = 'task' AND task {in: tasks text}) FROM (
    SELECT (SELECT l.run_at FROM {live} AS l
            WHERE l.queue = q.name AND l.priority = p.priority AND l.waits_for IS NULL AND l.worker_id IS NULL
            ORDER BY l.run_at LIMIT 1) AS at
    FROM {queues} AS q CROSS JOIN p WHERE q.paused_at IS NULL AND (:every_queue OR q.name {in: queues text})) AS t

-- name: marks
-- What became of executions that a worker runs: still its own, and has anybody asked it to stop?
SELECT id, fence, cancel_asked_at, cancel_by FROM {live} WHERE id {in: ids uuid}

-- name: held_by
-- What runs under a worker.
SELECT id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task, step, slot,
    waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint, progress,
    cancel_asked_at, cancel_by, limit_key
FROM {live} WHERE worker_id = :worker

-- name: left_behind
-- What runs under nobody: its worker is closed, or not there.
SELECT id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task, step, slot,
    waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint, progress,
    cancel_asked_at, cancel_by, limit_key
FROM {live} AS l
WHERE worker_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM {workers} AS w WHERE w.id = l.worker_id AND w.closed_at IS NULL)
ORDER BY id LIMIT :limit

-- name: save_progress
-- How far runs are; fenced. What somebody else has locked is about to change anyway.
WITH mine AS MATERIALIZED (
    SELECT l.id, u.progress AS progress FROM {rows: id uuid, fence bigint, progress json} CROSS JOIN {live} AS l
    WHERE {found_by: l.id u.id} AND l.fence = u.fence {for_update_skip_locked of l})
UPDATE {live} AS x SET progress = mine.progress FROM mine WHERE {found_by: x.id mine.id}

-- name: save_checkpoint
-- Where a run can go on from; fenced.
UPDATE {live} SET checkpoint = :checkpoint WHERE id = :id AND fence = :fence
