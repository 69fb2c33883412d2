-- Queued and running executions.

-- name: insert_live
-- Executions that are queued from now on.
INSERT INTO {live} ({columns live})
SELECT {columns live as u}
FROM {rows of live}
WHERE true

-- name: insert_alike_live
-- The same for jobs that differ only in id and args.
INSERT INTO {live} ({columns live})
SELECT u.id, u.job_id, {shared of live without id, job_id}
FROM {rows: id uuid, job_id uuid}

-- name: update_live
-- Live rows that a rule has changed, under their job's lock.
UPDATE {live} AS l SET {set live from u without id, job_id, number, attempt, execution_number, step}
FROM {rows of live without job_id, number, attempt, execution_number, step}
WHERE {found_by: l.id u.id}

-- name: delete_live
-- Executions that have ended or were withdrawn.
DELETE FROM {live} WHERE id {in: ids uuid}

-- name: lock_live
-- All live rows of jobs that are locked by this transaction.
SELECT {columns live}
FROM {live} WHERE job_id {in: ids uuid} ORDER BY job_id, id {for_update}

-- name: live_of
-- All live rows of jobs, unlocked.
SELECT {columns live}
FROM {live} WHERE job_id {in: ids uuid} ORDER BY id

-- name: live_by_id
-- Live rows by their ids, unlocked.
SELECT {columns live}
FROM {live} WHERE id {in: ids uuid}

-- name: list_live
-- Queued and running executions, the newest first.
SELECT {columns live}
FROM {live}
WHERE (CAST(:job AS {uuid}) IS NULL OR job_id = CAST(:job AS {uuid}))
  AND (CAST(:before AS {uuid}) IS NULL OR id < CAST(:before AS {uuid}))
ORDER BY id DESC LIMIT :limit

-- name: time_has_come [postgres]
-- Rows that waited for a time may start: backoff, deferrals, windows. (An array is looked up row by row, never joined.)
UPDATE {live} SET waits_for = CASE WHEN limit_key IS NULL THEN NULL ELSE 'limit' END WHERE id = ANY (ARRAY(
    SELECT id FROM {live} WHERE waits_for = 'time' AND run_at <= :now
    ORDER BY run_at LIMIT :limit FOR UPDATE SKIP LOCKED))

-- name: time_has_come [sqlite]
UPDATE {live} SET waits_for = CASE WHEN limit_key IS NULL THEN NULL ELSE 'limit' END WHERE id IN (
    SELECT id FROM {live} WHERE waits_for = 'time' AND run_at <= :now ORDER BY run_at LIMIT :limit)

-- name: next_waiting
-- The next time at which one of those may start.
SELECT min(run_at) FROM {live} WHERE waits_for = 'time'

-- Rows that may start now in these queues: strictly by priority, then the oldest. PostgreSQL reads one range of the
-- index per queue and priority, so it never walks over rows of the near future. On SQLite the inner query takes the
-- first few of each queue by the index, and only those are sorted together.
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

-- name: park_unknown [postgres]
-- First rows of tasks unknown here: out of the claim index, until a worker comes that knows their tasks.
UPDATE {live} SET waits_for = 'task' WHERE id = ANY (ARRAY(
    SELECT f.id FROM ({part first_of_postgres}) AS f WHERE NOT f.task {in: tasks text})) RETURNING task

-- name: park_unknown [sqlite]
UPDATE {live} SET waits_for = 'task' WHERE id IN (
    SELECT l.id FROM {rows: name text} CROSS JOIN {live} AS l WHERE {part first_of_sqlite}
    ORDER BY l.priority, l.run_at, l.id LIMIT :limit) AND NOT task {in: tasks text} RETURNING task

-- name: claim [postgres]
-- Take and start the rows of known tasks that may start now. The definitions come with them, which costs less than a
-- second query. The statement also reads which queues are open (like `open_queues`), so that a claim can be one round
-- trip. The worker is locked before the queues, and a queue before its rows, as everywhere.
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
RETURNING {columns live as l without waits_for, worker_id, started_at, progress},
    j.id, j.version, {columns definition as j without kind},
    (SELECT open.max_queued IS NOT NULL FROM open WHERE open.name = l.queue)

-- part: started
{columns live as l without waits_for, worker_id, started_at, progress but fence = l.fence + 1, version = j.version}

-- name: claim [sqlite]
-- The rows that `start` takes, as they will be then. SQLite is slow to return changed rows (10 µs a row), and no other
-- writer can come between the two.
SELECT {part started},
    j.id, j.version, {columns definition as j without kind}
FROM (SELECT l.id FROM {rows: name text} CROSS JOIN {live} AS l WHERE {part first_of_sqlite}
        ORDER BY l.priority, l.run_at, l.id LIMIT :limit) AS f CROSS JOIN {live} AS l CROSS JOIN {jobs} AS j
WHERE l.id = f.id AND l.task {in: tasks text} AND j.id = l.job_id

-- name: claim_of_known
-- The same without the definitions, for a worker that has cached them; on SQLite too. Sorted, so that all rows are
-- found in one step, without Python's lock: claimed runs go on meanwhile. (An unsorted statement asks for the lock for
-- each row, and waits for it each time.) Rows of unknown tasks count for the limit here, too: those that stand first
-- are then found, and set apart.
SELECT {part started}
FROM (SELECT l.* FROM {rows: name text} CROSS JOIN {live} AS l WHERE {part first_of_sqlite}
        ORDER BY l.priority, l.run_at, l.id LIMIT :limit) AS l CROSS JOIN {jobs} AS j
WHERE l.task {in: tasks text} AND j.id = l.job_id
ORDER BY l.priority, l.run_at, l.id

-- name: start
-- The second half of a claim on SQLite.
UPDATE {live} SET worker_id = :worker, started_at = :now, fence = fence + 1, progress = NULL,
    version = (SELECT j.version FROM {jobs} AS j WHERE j.id = {live}.job_id)
WHERE id {in: ids uuid}

-- name: put_off
-- Claimed rows whose definition cannot be read here: back to the queue, until later.
UPDATE {live} SET worker_id = NULL, started_at = NULL, version = NULL, waits_for = 'time', run_at = :until
WHERE id {in: ids uuid} AND worker_id = :worker

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
-- Tasks that no worker could run at their time.
SELECT task, count(*), min(run_at) FROM {live} WHERE waits_for = 'task' GROUP BY task ORDER BY task

-- name: outlook
-- The next time at which a row of these queues may start, if they are open: the first of each range of the claim index.
-- A past time means a row that another claim has locked, or of a task unknown here. Also whether rows of known tasks
-- are parked.
WITH p(priority) AS (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10))
SELECT min(t.at), EXISTS (SELECT 1 FROM {live} WHERE waits_for = 'task' AND task {in: tasks text}) FROM (
    SELECT (SELECT l.run_at FROM {live} AS l
            WHERE l.queue = q.name AND l.priority = p.priority AND l.waits_for IS NULL AND l.worker_id IS NULL
            ORDER BY l.run_at LIMIT 1) AS at
    FROM {queues} AS q CROSS JOIN p WHERE q.paused_at IS NULL AND (:every_queue OR q.name {in: queues text})) AS t

-- name: has_work
-- Whether a worker runs or holds an execution, or a row of its queues and tasks may start now.
SELECT EXISTS (SELECT 1 FROM {live} WHERE worker_id = :worker) OR EXISTS (
    SELECT 1 FROM {queues} AS q CROSS JOIN {live} AS l
    WHERE q.paused_at IS NULL AND (:every_queue OR q.name {in: queues text})
      AND l.queue = q.name AND l.worker_id IS NULL AND l.task {in: tasks text} AND l.run_at <= :now
      AND (l.waits_for IS NULL OR l.waits_for = 'task'))

-- name: marks
-- The state of executions that a worker runs: still its own, and is a cancel requested?
SELECT id, fence, cancel_asked_at, cancel_by FROM {live} WHERE id {in: ids uuid}

-- name: held_by
-- Executions under a worker.
SELECT {columns live}
FROM {live} WHERE worker_id = :worker

-- name: left_behind
-- Executions without an open worker: it is closed or does not exist.
SELECT {columns live}
FROM {live} AS l
WHERE worker_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM {workers} AS w WHERE w.id = l.worker_id AND w.closed_at IS NULL)
ORDER BY id LIMIT :limit

-- name: save_progress
-- Progress of runs; fenced. Rows locked by others are skipped: they are about to change anyway.
WITH mine AS MATERIALIZED (
    SELECT l.id, u.progress AS progress FROM {rows: id uuid, fence bigint, progress json} CROSS JOIN {live} AS l
    WHERE {found_by: l.id u.id} AND l.fence = u.fence {for_update_skip_locked of l})
UPDATE {live} AS x SET progress = mine.progress FROM mine WHERE {found_by: x.id mine.id}

-- name: save_checkpoint
-- Checkpoints of runs; fenced.
UPDATE {live} SET checkpoint = :checkpoint WHERE id = :id AND fence = :fence

-- name: runs_of
-- The runs of these jobs that wait for their steps: task, start and state.
SELECT job_id, number, task, started_at, checkpoint FROM {live}
WHERE job_id {in: ids uuid} AND waits_for = 'steps' AND started_at IS NOT NULL

-- name: runs_under_way
-- All runs that wait for their steps.
SELECT id, job_id, started_at FROM {live} WHERE waits_for = 'steps' AND started_at IS NOT NULL LIMIT :limit
