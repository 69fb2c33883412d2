-- Every statement of the store. The columns of a table are always named in the order of the fields of their value
-- (core/model.py); tests/store/test_queries.py holds both sides to it and runs each statement on both databases.

-- ---------------------------------------------------------------- jobs

-- name: insert_jobs
-- New jobs, definition and facts.
INSERT INTO {jobs} (id, app, key, held_key, name, description, task, args, queue, priority, kind, schedule, policies,
    tags, metadata, owner, declared, created_at, updated_at, anchor, version, next_due_at, computed_at, last_due_at,
    reset_at, last_number, last_execution_number, repeats_done, period_start, period_failures, completed, failed,
    timed_out, cancelled, lost, skipped, paused_at, cancelled_at, ended_at, ended_as, deleted_at)
SELECT u.id, u.app, u.key, u.held_key, u.name, u.description, u.task, u.args, u.queue, u.priority, u.kind, u.schedule,
    u.policies, u.tags, u.metadata, u.owner, u.declared, u.created_at, u.updated_at, u.anchor, u.version, u.next_due_at,
    u.computed_at, u.last_due_at, u.reset_at, u.last_number, u.last_execution_number, u.repeats_done, u.period_start,
    u.period_failures, u.completed, u.failed, u.timed_out, u.cancelled, u.lost, u.skipped, u.paused_at, u.cancelled_at,
    u.ended_at, u.ended_as, u.deleted_at
FROM {rows: id uuid, app text, key text, held_key text, name text, description text, task text, args json, queue text, priority bigint, kind text, schedule json, policies json, tags json, metadata json, owner text, declared text, created_at instant, updated_at instant, anchor instant, version bigint, next_due_at instant, computed_at instant, last_due_at instant, reset_at instant, last_number bigint, last_execution_number bigint, repeats_done bigint, period_start instant, period_failures bigint, completed bigint, failed bigint, timed_out bigint, cancelled bigint, lost bigint, skipped bigint, paused_at instant, cancelled_at instant, ended_at instant, ended_as text, deleted_at instant}
WHERE true

-- name: copy_job
-- Jobs that differ from one that was just saved only in id and args: all else is taken from its row.
INSERT INTO {jobs} (id, app, key, held_key, name, description, task, args, queue, priority, kind, schedule, policies, tags,
    metadata, owner, declared, created_at, updated_at, anchor, version, next_due_at, computed_at, last_due_at,
    reset_at, last_number, last_execution_number, repeats_done, period_start, period_failures, completed,
    failed, timed_out, cancelled, lost, skipped, paused_at, cancelled_at, ended_at, ended_as, deleted_at)
SELECT u.id, j.app, j.key, j.held_key, j.name, j.description, j.task, u.args, j.queue, j.priority, j.kind, j.schedule,
    j.policies, j.tags, j.metadata, j.owner, j.declared, j.created_at, j.updated_at, j.anchor, j.version,
    j.next_due_at, j.computed_at, j.last_due_at, j.reset_at, j.last_number, j.last_execution_number,
    j.repeats_done, j.period_start, j.period_failures, j.completed, j.failed, j.timed_out, j.cancelled, j.lost,
    j.skipped, j.paused_at, j.cancelled_at, j.ended_at, j.ended_as, j.deleted_at
FROM {rows: id uuid, args json} CROSS JOIN {jobs} AS j WHERE j.id = :original

-- name: copy_live
-- Their live rows.
INSERT INTO {live} (id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task, step,
    slot, waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint,
    progress, cancel_asked_at, cancel_by)
SELECT u.id, u.job_id, l.number, l.attempt, l.execution_number, l.asked, l.due_at, l.run_at, l.queued_at, l.queue,
    l.priority, l.task, l.step, l.slot, l.waits_for, l.fence, l.worker_id, l.started_at, l.version, l.args,
    l.failures, l.losses, l.releases, l.checkpoint, l.progress, l.cancel_asked_at, l.cancel_by
FROM {rows: id uuid, job_id uuid} CROSS JOIN {live} AS l WHERE l.id = :original

-- name: update_facts
-- What has become of jobs that are locked by this transaction.
UPDATE {jobs} AS j SET held_key = u.held_key, updated_at = u.updated_at, anchor = u.anchor, version = u.version,
    next_due_at = u.next_due_at, computed_at = u.computed_at, last_due_at = u.last_due_at, reset_at = u.reset_at,
    last_number = u.last_number, last_execution_number = u.last_execution_number, repeats_done = u.repeats_done,
    period_start = u.period_start, period_failures = u.period_failures, completed = u.completed, failed = u.failed,
    timed_out = u.timed_out, cancelled = u.cancelled, lost = u.lost, skipped = u.skipped, paused_at = u.paused_at,
    cancelled_at = u.cancelled_at, ended_at = u.ended_at, ended_as = u.ended_as, deleted_at = u.deleted_at,
    aside_until = NULL
FROM {rows: id uuid, held_key text, updated_at instant, anchor instant, version bigint, next_due_at instant, computed_at instant, last_due_at instant, reset_at instant, last_number bigint, last_execution_number bigint, repeats_done bigint, period_start instant, period_failures bigint, completed bigint, failed bigint, timed_out bigint, cancelled bigint, lost bigint, skipped bigint, paused_at instant, cancelled_at instant, ended_at instant, ended_as text, deleted_at instant}
WHERE j.id = u.id

-- name: update_usual_facts
-- The same for jobs of which nothing but this has changed, as when a run is fired or completes: less than half to write.
UPDATE {jobs} AS j SET held_key = u.held_key, next_due_at = u.next_due_at, computed_at = u.computed_at,
    last_due_at = u.last_due_at, last_number = u.last_number, last_execution_number = u.last_execution_number,
    repeats_done = u.repeats_done, completed = u.completed, ended_at = u.ended_at, ended_as = u.ended_as
FROM {rows: id uuid, held_key text, next_due_at instant, computed_at instant, last_due_at instant, last_number bigint, last_execution_number bigint, repeats_done bigint, completed bigint, ended_at instant, ended_as text}
WHERE j.id = u.id

-- name: update_definition
-- An edit: the definition of one job that is locked by this transaction.
UPDATE {jobs} SET app = :app, key = :key, name = :name, description = :description, task = :task, args = :args,
    queue = :queue, priority = :priority, kind = :kind, schedule = :schedule, policies = :policies, tags = :tags,
    metadata = :metadata, owner = :owner, declared = :declared
WHERE id = :id

-- name: lock_facts
-- The facts of jobs, locked in the order of their ids.
SELECT id, created_at, updated_at, anchor, version, next_due_at, computed_at, last_due_at, reset_at, last_number,
    last_execution_number, repeats_done, period_start, period_failures, completed, failed, timed_out, cancelled, lost,
    skipped, paused_at, cancelled_at, ended_at, ended_as, deleted_at
FROM {jobs} WHERE id {in: ids uuid} ORDER BY id {for_update}

-- name: lock_running
-- Jobs by their ids, each with its live rows, all locked: the facts, and of the rows what may have changed since the claim.
SELECT j.id, j.created_at, j.updated_at, j.anchor, j.version, j.next_due_at, j.computed_at, j.last_due_at, j.reset_at,
    j.last_number, j.last_execution_number, j.repeats_done, j.period_start, j.period_failures, j.completed, j.failed,
    j.timed_out, j.cancelled, j.lost, j.skipped, j.paused_at, j.cancelled_at, j.ended_at, j.ended_as, j.deleted_at,
    l.id, l.fence, l.worker_id, l.cancel_asked_at, l.cancel_by, l.checkpoint
FROM {jobs} AS j JOIN {live} AS l ON l.job_id = j.id WHERE j.id {in: ids uuid} ORDER BY j.id, l.id {for_update}

-- name: definitions
-- What people wrote.
SELECT id, version, app, key, name, description, task, args, queue, priority, schedule, policies, tags, metadata, owner,
    declared
FROM {jobs} WHERE id {in: ids uuid}

-- name: facts
-- The facts of jobs that are not deleted, unlocked.
SELECT id, created_at, updated_at, anchor, version, next_due_at, computed_at, last_due_at, reset_at, last_number,
    last_execution_number, repeats_done, period_start, period_failures, completed, failed, timed_out, cancelled, lost,
    skipped, paused_at, cancelled_at, ended_at, ended_as, deleted_at
FROM {jobs} WHERE id {in: ids uuid} AND deleted_at IS NULL

-- name: job_by_held_key
-- The job that holds a key now.
SELECT id FROM {jobs} WHERE app = :app AND held_key = :key

-- name: holders
-- The jobs that hold these keys now.
SELECT j.app, j.held_key, j.id FROM {rows: app text, key text} CROSS JOIN {jobs} AS j
WHERE j.app = u.app AND j.held_key = u.key

-- name: jobs_there
-- Which of these jobs exist, deleted ones too.
SELECT id FROM {jobs} WHERE id {in: ids uuid}

-- name: jobs_by_key
-- All jobs that ever had a key, the newest first.
SELECT id FROM {jobs} WHERE app = :app AND key = :key AND deleted_at IS NULL ORDER BY id DESC

-- name: declared_keys
-- The jobs of an app that come from declarations.
SELECT id, key FROM {jobs} WHERE app = :app AND declared IS NOT NULL AND key IS NOT NULL AND deleted_at IS NULL

-- name: list_jobs
-- A page of jobs, newest first; a filter that is null does not filter.
SELECT j.id, s.status FROM {jobs} AS j JOIN {job_status} AS s ON s.id = j.id
WHERE j.deleted_at IS NULL
  AND (CAST(:before AS {uuid}) IS NULL OR j.id < CAST(:before AS {uuid}))
  AND (CAST(:task AS {json}) IS NULL OR j.task = :task)
  AND (CAST(:queue AS {json}) IS NULL OR j.queue = :queue)
  AND (CAST(:app AS {json}) IS NULL OR j.app = :app)
  AND (CAST(:status AS {json}) IS NULL OR s.status = :status)
ORDER BY j.id DESC LIMIT :limit

-- name: count_by_status
-- How many jobs are doing what.
SELECT status, count(*) FROM {job_status} GROUP BY status

-- name: status_of
-- What one job is doing, as the view says it.
SELECT status FROM {job_status} WHERE id = :id

-- name: lock_due
-- Jobs that are due, or will be by the horizon and have nothing live; those that another process has are left to it.
-- (With NOT EXISTS PostgreSQL would rather hash the whole of live.)
SELECT j.id, j.created_at, j.updated_at, j.anchor, j.version, j.next_due_at, j.computed_at, j.last_due_at, j.reset_at,
    j.last_number, j.last_execution_number, j.repeats_done, j.period_start, j.period_failures, j.completed, j.failed,
    j.timed_out, j.cancelled, j.lost, j.skipped, j.paused_at, j.cancelled_at, j.ended_at, j.ended_as, j.deleted_at
FROM {jobs} AS j
WHERE j.next_due_at <= :horizon
  AND (j.next_due_at <= :now OR (SELECT l.id FROM {live} AS l WHERE l.job_id = j.id LIMIT 1) IS NULL)
  AND (j.aside_until IS NULL OR j.aside_until <= :now)
  AND NOT (j.queue {in: bounded text})
ORDER BY j.next_due_at LIMIT :limit {for_update_skip_locked of j}

-- name: lock_bounded
-- Queues that take only so much from the schedule. Whoever fires into them is alone.
SELECT name FROM {queues} WHERE max_queued IS NOT NULL ORDER BY name {for_update}

-- name: bounded_queues
-- The same, with how much may start in each now.
SELECT q.name, q.max_queued, (SELECT count(*) FROM {live} AS l
    WHERE l.queue = q.name AND l.waits_for IS NULL AND l.worker_id IS NULL)
FROM {queues} AS q WHERE q.max_queued IS NOT NULL

-- name: lock_due_in
-- As lock_due, for one bounded queue that has room for so many: by priority, then the oldest, then who ran longest ago.
SELECT j.id, j.created_at, j.updated_at, j.anchor, j.version, j.next_due_at, j.computed_at, j.last_due_at, j.reset_at,
    j.last_number, j.last_execution_number, j.repeats_done, j.period_start, j.period_failures, j.completed, j.failed,
    j.timed_out, j.cancelled, j.lost, j.skipped, j.paused_at, j.cancelled_at, j.ended_at, j.ended_as, j.deleted_at
FROM {jobs} AS j
WHERE j.next_due_at <= :now AND j.queue = :queue AND (j.aside_until IS NULL OR j.aside_until <= :now)
ORDER BY j.priority, j.next_due_at, j.computed_at LIMIT :limit {for_update_skip_locked of j}

-- name: next_due
-- When the schedule has something to do next. What a full queue holds back waits for a claim from it.
SELECT min(t.at) FROM (
    SELECT first.at FROM (
        SELECT j.next_due_at AS at FROM {jobs} AS j
        WHERE j.next_due_at IS NOT NULL AND j.aside_until IS NULL AND NOT (j.queue {in: full text})
        ORDER BY j.next_due_at LIMIT 1) AS first
    UNION ALL
    SELECT {greatest}(a.aside_until, a.next_due_at) FROM {jobs} AS a
    WHERE a.aside_until IS NOT NULL AND a.next_due_at IS NOT NULL AND NOT (a.queue {in: full text})) AS t

-- name: lock_wrong_clock
-- Jobs whose next time was computed by a clock that was ahead of this one.
SELECT id, created_at, updated_at, anchor, version, next_due_at, computed_at, last_due_at, reset_at, last_number,
    last_execution_number, repeats_done, period_start, period_failures, completed, failed, timed_out, cancelled, lost,
    skipped, paused_at, cancelled_at, ended_at, ended_as, deleted_at
FROM {jobs} WHERE computed_at > :now AND id > :after
ORDER BY id LIMIT :limit {for_update}

-- name: lock_zoned
-- Cron jobs: their times depend on zone data.
SELECT id, created_at, updated_at, anchor, version, next_due_at, computed_at, last_due_at, reset_at, last_number,
    last_execution_number, repeats_done, period_start, period_failures, completed, failed, timed_out, cancelled, lost,
    skipped, paused_at, cancelled_at, ended_at, ended_as, deleted_at
FROM {jobs} WHERE kind = 'cron' AND next_due_at IS NOT NULL AND id > :after
ORDER BY id LIMIT :limit {for_update}

-- name: set_aside
-- Jobs that no rule can deal with now: look again later. Their due time is kept.
UPDATE {jobs} SET aside_until = :until WHERE id {in: ids uuid}

-- name: deleted_jobs
-- Jobs that are gone for everybody, and that nothing runs for any more.
SELECT j.id FROM {jobs} AS j
WHERE j.deleted_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {live} AS l WHERE l.job_id = j.id)
ORDER BY j.deleted_at LIMIT :limit

-- name: jobs_after
-- The next jobs in the order of their ids, for retention to look at.
SELECT id, kind, policies, ended_at, cancelled_at, last_execution_number FROM {jobs}
WHERE id > :after AND deleted_at IS NULL ORDER BY id LIMIT :limit

-- name: expire_jobs
-- Run-once jobs that finished long ago and that nothing runs for: deleted, if they still are what they were.
UPDATE {jobs} SET deleted_at = :now
FROM {rows: id uuid, before instant}
WHERE {jobs}.id = u.id AND {jobs}.deleted_at IS NULL
  AND {greatest}(coalesce({jobs}.ended_at, {jobs}.cancelled_at), coalesce({jobs}.cancelled_at, {jobs}.ended_at)) < u.before
  AND NOT EXISTS (SELECT 1 FROM {live} AS l WHERE l.job_id = {jobs}.id)
RETURNING {jobs}.id

-- name: delete_jobs
-- The last thing to go.
DELETE FROM {jobs} WHERE id {in: ids uuid}

-- name: lock_pruned
-- What retention took away from a job so far.
SELECT pruned FROM {jobs} WHERE id = :id {for_update}

-- name: note_pruned
-- What retention took away, so that counters can still be checked against history.
UPDATE {jobs} SET pruned = :pruned WHERE id = :id

-- ---------------------------------------------------------------- live

-- name: insert_live
-- Executions that are queued from now on.
INSERT INTO {live} (id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task,
    step, slot, waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint, progress,
    cancel_asked_at, cancel_by)
SELECT u.id, u.job_id, u.number, u.attempt, u.execution_number, u.asked, u.due_at, u.run_at, u.queued_at, u.queue,
    u.priority, u.task, u.step, u.slot, u.waits_for, u.fence, u.worker_id, u.started_at, u.version, u.args, u.failures,
    u.losses, u.releases, u.checkpoint, u.progress, u.cancel_asked_at, u.cancel_by
FROM {rows: id uuid, job_id uuid, number bigint, attempt bigint, execution_number bigint, asked text, due_at instant, run_at instant, queued_at instant, queue text, priority bigint, task text, step text, slot bigint, waits_for text, fence bigint, worker_id uuid, started_at instant, version bigint, args json, failures bigint, losses bigint, releases bigint, checkpoint json, progress json, cancel_asked_at instant, cancel_by text}
WHERE true

-- name: update_live
-- Live rows that a rule has changed, under their job's lock.
UPDATE {live} AS l SET asked = u.asked, due_at = u.due_at, run_at = u.run_at, queued_at = u.queued_at, queue = u.queue,
    priority = u.priority, task = u.task, slot = u.slot, waits_for = u.waits_for, fence = u.fence, worker_id = u.worker_id,
    started_at = u.started_at, version = u.version, args = u.args, failures = u.failures, losses = u.losses,
    releases = u.releases, checkpoint = u.checkpoint, progress = u.progress, cancel_asked_at = u.cancel_asked_at,
    cancel_by = u.cancel_by
FROM {rows: id uuid, asked text, due_at instant, run_at instant, queued_at instant, queue text, priority bigint, task text, slot bigint, waits_for text, fence bigint, worker_id uuid, started_at instant, version bigint, args json, failures bigint, losses bigint, releases bigint, checkpoint json, progress json, cancel_asked_at instant, cancel_by text}
WHERE l.id = u.id

-- name: delete_live
-- Executions that have ended, or were withdrawn.
DELETE FROM {live} WHERE id IN (SELECT u.id FROM {rows: id uuid})

-- name: lock_live
-- All live rows of jobs that are locked by this transaction.
SELECT id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task, step, slot,
    waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint, progress,
    cancel_asked_at, cancel_by
FROM {live} WHERE job_id {in: ids uuid} ORDER BY id {for_update}

-- name: live_of
-- All live rows of jobs, unlocked.
SELECT id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task, step, slot,
    waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint, progress,
    cancel_asked_at, cancel_by
FROM {live} WHERE job_id {in: ids uuid} ORDER BY id

-- name: live_by_id
-- Live rows by their ids, unlocked.
SELECT id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task, step, slot,
    waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint, progress,
    cancel_asked_at, cancel_by
FROM {live} WHERE id {in: ids uuid}

-- name: list_live
-- What is queued or running, newest first.
SELECT id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task, step, slot,
    waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint, progress,
    cancel_asked_at, cancel_by
FROM {live}
WHERE (CAST(:job AS {uuid}) IS NULL OR job_id = CAST(:job AS {uuid}))
  AND (CAST(:before AS {uuid}) IS NULL OR id < CAST(:before AS {uuid}))
ORDER BY id DESC LIMIT :limit

-- name: time_has_come [postgres]
-- What waited for a time may start: backoff, deferrals, windows. (An array is looked up row by row, never joined.)
UPDATE {live} SET waits_for = NULL WHERE id = ANY (ARRAY(
    SELECT id FROM {live} WHERE waits_for = 'time' AND run_at <= :now
    ORDER BY run_at LIMIT :limit FOR UPDATE SKIP LOCKED))

-- name: time_has_come [sqlite]
UPDATE {live} SET waits_for = NULL WHERE id IN (
    SELECT id FROM {live} WHERE waits_for = 'time' AND run_at <= :now ORDER BY run_at LIMIT :limit)

-- name: next_waiting
-- When the next of those may start.
SELECT min(run_at) FROM {live} WHERE waits_for = 'time'

-- name: open_queues
-- The queues that are not paused. The share lock makes a pause wait for a claim under way, and a claim for a pause.
SELECT name, max_queued FROM {queues} WHERE paused_at IS NULL {for_share}

-- name: startable [postgres]
-- What may start now in these queues: strictly by priority, then the oldest. One range of the index per queue and
-- priority, so that rows of the near future are never walked over.
SELECT picked.id, picked.task FROM generate_series(1, 10) AS p(priority) CROSS JOIN LATERAL (
    SELECT one.id, one.task FROM {rows: name text} CROSS JOIN LATERAL (
        SELECT l.id, l.task, l.run_at FROM {live} AS l
        WHERE l.queue = u.name AND l.priority = p.priority AND l.waits_for IS NULL AND l.run_at <= :now
          AND l.worker_id IS NULL
        ORDER BY l.run_at LIMIT :limit {for_update_skip_locked of l}) AS one
    ORDER BY one.run_at LIMIT :limit) AS picked
LIMIT :limit

-- name: startable [sqlite]
-- The inner query takes the first few of each queue by the index; only those are sorted together.
SELECT l.id, l.task FROM {rows: name text} CROSS JOIN {live} AS l
WHERE l.id IN (SELECT x.id FROM {live} AS x
    WHERE x.queue = u.name AND x.waits_for IS NULL AND x.run_at <= :now AND x.worker_id IS NULL
    ORDER BY x.priority, x.run_at LIMIT :limit)
ORDER BY l.priority, l.run_at LIMIT :limit

-- name: claim
-- Take and start what `startable` has locked.
UPDATE {live} SET worker_id = :worker, started_at = :now, fence = fence + 1, progress = NULL,
    version = (SELECT j.version FROM {jobs} AS j WHERE j.id = {live}.job_id)
WHERE id {in: ids uuid}
RETURNING id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task, step,
    slot, waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint, progress,
    cancel_asked_at, cancel_by

-- name: put_off
-- Just claimed, but their definition cannot be read here: back, until later.
UPDATE {live} SET worker_id = NULL, started_at = NULL, version = NULL, waits_for = 'time', run_at = :until
WHERE id {in: ids uuid}

-- name: park
-- Nobody here knows their task: out of the claim index, until somebody comes who does.
UPDATE {live} SET waits_for = 'task' WHERE id {in: ids uuid}

-- name: unpark [postgres]
-- Tasks that this worker knows may start again.
UPDATE {live} SET waits_for = NULL WHERE id = ANY (ARRAY(
    SELECT id FROM {live} WHERE waits_for = 'task' AND task {in: tasks text} AND queue {in: queues text}
    ORDER BY priority, run_at LIMIT :limit FOR UPDATE SKIP LOCKED))

-- name: unpark [sqlite]
UPDATE {live} SET waits_for = NULL WHERE id IN (
    SELECT id FROM {live} WHERE waits_for = 'task' AND task {in: tasks text} AND queue {in: queues text}
    ORDER BY priority, run_at LIMIT :limit)

-- name: parked_tasks
-- Tasks that nobody could run when their time came.
SELECT task, count(*), min(run_at) FROM {live} WHERE waits_for = 'task' GROUP BY task ORDER BY task

-- name: next_startable
-- When the next row of these queues may start: the first of each range of the claim index. A time that has come means
-- a row that another claim has locked.
WITH p(priority) AS (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10))
SELECT min(t.at) FROM (
    SELECT (SELECT l.run_at FROM {live} AS l
            WHERE l.queue = u.name AND l.priority = p.priority AND l.waits_for IS NULL AND l.worker_id IS NULL
            ORDER BY l.run_at LIMIT 1) AS at
    FROM {rows: name text} CROSS JOIN p) AS t

-- name: marks
-- What became of executions that a worker runs: still its own, and has anybody asked it to stop?
SELECT id, fence, cancel_asked_at, cancel_by FROM {live} WHERE id {in: ids uuid}

-- name: held_by
-- What runs under a worker.
SELECT id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task, step, slot,
    waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint, progress,
    cancel_asked_at, cancel_by
FROM {live} WHERE worker_id = :worker

-- name: left_behind
-- What runs under nobody: its worker is closed, or not there.
SELECT id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue, priority, task, step, slot,
    waits_for, fence, worker_id, started_at, version, args, failures, losses, releases, checkpoint, progress,
    cancel_asked_at, cancel_by
FROM {live} AS l
WHERE worker_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM {workers} AS w WHERE w.id = l.worker_id AND w.closed_at IS NULL)
ORDER BY id LIMIT :limit

-- name: save_progress
-- How far runs are; fenced. What somebody else has locked is about to change anyway.
WITH mine AS MATERIALIZED (
    SELECT l.id, u.progress FROM {rows: id uuid, fence bigint, progress json} CROSS JOIN {live} AS l
    WHERE l.id = u.id AND l.fence = u.fence {for_update_skip_locked of l})
UPDATE {live} SET progress = mine.progress FROM mine WHERE {live}.id = mine.id

-- name: save_checkpoint
-- Where a run can go on from; fenced.
UPDATE {live} SET checkpoint = :checkpoint WHERE id = :id AND fence = :fence

-- ---------------------------------------------------------------- history

-- name: insert_executions
-- Attempts that have ended.
INSERT INTO {executions} (id, job_id, number, step, attempt, execution_number, asked, due_at, run_at, queued_at,
    started_at, finished_at, result, task, queue, worker_id, fence, version, args, value, error_kind, error, traceback,
    failures, losses, releases, checkpoint, by)
SELECT u.id, u.job_id, u.number, u.step, u.attempt, u.execution_number, u.asked, u.due_at, u.run_at, u.queued_at,
    u.started_at, u.finished_at, u.result, u.task, u.queue, u.worker_id, u.fence, u.version, u.args, u.value, u.error_kind,
    u.error, u.traceback, u.failures, u.losses, u.releases, u.checkpoint, u.by
FROM {rows: id uuid, job_id uuid, number bigint, step text, attempt bigint, execution_number bigint, asked text, due_at instant, run_at instant, queued_at instant, started_at instant, finished_at instant, result text, task text, queue text, worker_id uuid, fence bigint, version bigint, args json, value json, error_kind text, error text, traceback text, failures bigint, losses bigint, releases bigint, checkpoint json, by text}
WHERE true

-- name: already_settled
-- How these have ended, under which fence and when: a settle whose answer was lost is repeated safely.
SELECT id, fence, finished_at, result FROM {executions} WHERE id {in: ids uuid}

-- name: last_execution
-- The newest execution of a job.
SELECT id, job_id, number, step, attempt, execution_number, asked, due_at, run_at, queued_at, started_at, finished_at,
    result, task, queue, worker_id, fence, version, args, value, error_kind, error, traceback, failures, losses, releases,
    checkpoint, by
FROM {executions} WHERE job_id = :job AND step = '' ORDER BY execution_number DESC LIMIT 1

-- name: last_failure
-- The newest failed occurrence of a job, as its last attempt left it.
SELECT e.id, e.job_id, e.number, e.step, e.attempt, e.execution_number, e.asked, e.due_at, e.run_at, e.queued_at,
    e.started_at, e.finished_at, e.result, e.task, e.queue, e.worker_id, e.fence, e.version, e.args, e.value, e.error_kind,
    e.error, e.traceback, e.failures, e.losses, e.releases, e.checkpoint, e.by
FROM {executions} AS e
WHERE e.job_id = :job AND e.step = '' AND e.result IN ('failed', 'timed_out', 'lost')
  AND (CAST(:asked AS {json}) IS NULL OR e.asked = :asked)
  AND NOT EXISTS (SELECT 1 FROM {executions} AS x
                  WHERE x.job_id = e.job_id AND x.number = e.number AND x.step = '' AND x.attempt > e.attempt)
ORDER BY e.number DESC, e.attempt DESC LIMIT 1

-- name: executions_of
-- The history of a job, the newest occurrence first.
SELECT id, job_id, number, step, attempt, execution_number, asked, due_at, run_at, queued_at, started_at, finished_at,
    result, task, queue, worker_id, fence, version, args, value, error_kind, error, traceback, failures, losses, releases,
    checkpoint, by
FROM {executions} WHERE job_id = :job
  AND (CAST(:number AS {bigint}) IS NULL OR (number, attempt) < (CAST(:number AS {bigint}), CAST(:attempt AS {bigint})))
ORDER BY number DESC, attempt DESC LIMIT :limit

-- name: list_executions
-- All history, the newest first.
SELECT id, job_id, number, step, attempt, execution_number, asked, due_at, run_at, queued_at, started_at, finished_at,
    result, task, queue, worker_id, fence, version, args, value, error_kind, error, traceback, failures, losses, releases,
    checkpoint, by
FROM {executions} WHERE (CAST(:before AS {uuid}) IS NULL OR id < CAST(:before AS {uuid}))
ORDER BY id DESC LIMIT :limit

-- name: executions_by_id
SELECT id, job_id, number, step, attempt, execution_number, asked, due_at, run_at, queued_at, started_at, finished_at,
    result, task, queue, worker_id, fence, version, args, value, error_kind, error, traceback, failures, losses, releases,
    checkpoint, by
FROM {executions} WHERE id {in: ids uuid}

-- name: count_executions
-- History of a job by result.
SELECT result, count(*) FROM {executions} WHERE job_id = :job AND step = '' GROUP BY result

-- name: durations_of
-- How long the newest completed runs of a job took, in microseconds.
SELECT finished_at - started_at FROM {executions}
WHERE job_id = :job AND result = 'completed' AND started_at IS NOT NULL
ORDER BY number DESC LIMIT :limit

-- name: dealt_times
-- Due times at or after an instant that have an execution.
SELECT due_at FROM {executions} WHERE job_id = :job AND asked = 'schedule' AND due_at >= :since
UNION SELECT due_at FROM {live} WHERE job_id = :job AND asked = 'schedule' AND due_at >= :since

-- name: dealt_ranges
-- Ranges of due times, reaching to or beyond an instant, that were skipped.
SELECT id, job_id, reason, first_due_at, last_due_at, count, recorded_at, in_the_way FROM {skips}
WHERE job_id = :job AND last_due_at >= :since ORDER BY last_due_at

-- name: nth_newest
-- The newest execution of a job that is beyond the `kept` newest ones.
SELECT number, attempt FROM {executions} WHERE job_id = :job ORDER BY number DESC, attempt DESC LIMIT 1 OFFSET :kept

-- name: prunable
-- Executions of a job up to that one that ended before an instant, the oldest first.
SELECT id FROM {executions}
WHERE job_id = :job AND (number, attempt) <= (CAST(:number AS {bigint}), CAST(:attempt AS {bigint}))
  AND finished_at < :before
ORDER BY number, attempt LIMIT :limit

-- name: delete_executions
DELETE FROM {executions} WHERE id {in: ids uuid} RETURNING result, step

-- name: executions_of_jobs
-- Some history of jobs that are going away.
SELECT id FROM {executions} WHERE job_id {in: ids uuid} LIMIT :limit

-- name: insert_skips
-- Due times that were not run.
INSERT INTO {skips} (id, job_id, reason, first_due_at, last_due_at, count, recorded_at, in_the_way)
SELECT u.id, u.job_id, u.reason, u.first_due_at, u.last_due_at, u.count, u.recorded_at, u.in_the_way
FROM {rows: id uuid, job_id uuid, reason text, first_due_at instant, last_due_at instant, count bigint, recorded_at instant, in_the_way uuid}
WHERE true

-- name: extend_skips
-- A skip that continues the last one of its job makes that one longer: the ids of the new ones that did.
UPDATE {skips} SET last_due_at = u.last_due_at, count = {skips}.count + u.count
FROM {rows: id uuid, job_id uuid, reason text, follows instant, last_due_at instant, count bigint, in_the_way uuid}
WHERE {skips}.job_id = u.job_id AND {skips}.last_due_at = u.follows AND {skips}.reason = u.reason
  AND {skips}.in_the_way {is_not_distinct_from} u.in_the_way
RETURNING {skips}.job_id, {skips}.last_due_at

-- name: rewrite_skips
UPDATE {skips} AS s SET last_due_at = u.last_due_at, count = u.count
FROM {rows: id uuid, last_due_at instant, count bigint} WHERE s.id = u.id

-- name: delete_skips
DELETE FROM {skips} WHERE id {in: ids uuid}

-- name: delete_skips_of
DELETE FROM {skips} WHERE job_id {in: ids uuid}

-- name: jobs_with_old_skips
SELECT DISTINCT s.job_id FROM {rows: job uuid, before instant} CROSS JOIN {skips} AS s
WHERE s.job_id = u.job AND s.last_due_at < u.before

-- name: delete_old_skips
DELETE FROM {skips} WHERE job_id = :job AND last_due_at < :before RETURNING count

-- name: list_skips
-- The skips of a job, newest first.
SELECT id, job_id, reason, first_due_at, last_due_at, count, recorded_at, in_the_way FROM {skips}
WHERE job_id = :job AND (CAST(:before AS {instant}) IS NULL OR last_due_at < CAST(:before AS {instant}))
ORDER BY last_due_at DESC LIMIT :limit

-- name: insert_events
INSERT INTO {events} (id, at, kind, job_id, execution_id, worker_id, by, data)
SELECT u.id, u.at, u.kind, u.job_id, u.execution_id, u.worker_id, u.by, u.data
FROM {rows: id uuid, at instant, kind text, job_id uuid, execution_id uuid, worker_id uuid, by text, data json}
WHERE true

-- name: list_events
-- Events, newest first.
SELECT id, at, kind, job_id, execution_id, worker_id, by, data FROM {events}
WHERE (CAST(:job AS {uuid}) IS NULL OR job_id = CAST(:job AS {uuid}))
  AND (CAST(:before AS {uuid}) IS NULL OR id < CAST(:before AS {uuid}))
ORDER BY id DESC LIMIT :limit

-- name: delete_old_events
-- Ids are in the order of time: the oldest come first.
DELETE FROM {events} WHERE id IN (SELECT id FROM {events} WHERE id < :before ORDER BY id LIMIT :limit)

-- name: delete_events_of
-- That a job was deleted, and by whom, is kept as long as any event.
DELETE FROM {events} WHERE job_id {in: ids uuid} AND kind <> 'job.deleted'

-- ---------------------------------------------------------------- workers and queues

-- name: insert_worker
INSERT INTO {workers} (id, app, host, pid, version, tasks, queues, concurrency, running, started_at, renewed_at,
    lease_until, drain_asked_at, closed_at, closed_as)
VALUES (:id, :app, :host, :pid, :version, :tasks, :queues, :concurrency, 0, :now, :now, :lease_until, NULL, NULL, NULL)

-- name: renew
-- Keep the lease. A closed worker cannot; it is told so by finding no row.
UPDATE {workers} SET renewed_at = :now, lease_until = :lease_until, running = :running
WHERE id = :id AND closed_at IS NULL
RETURNING drain_asked_at

-- name: close_worker
UPDATE {workers} SET closed_at = :now, closed_as = :closed_as, running = 0 WHERE id = :id AND closed_at IS NULL

-- name: lock_worker
-- Alone with a worker: no claim of it is under way.
SELECT id, renewed_at, lease_until, closed_at FROM {workers} WHERE id = :id {for_update}

-- name: working [postgres]
-- Whether a worker may claim. Its row cannot be closed before the claim has ended; renewals do not wait.
SELECT id FROM {workers} WHERE id = :id AND closed_at IS NULL FOR KEY SHARE

-- name: working [sqlite]
SELECT id FROM {workers} WHERE id = :id AND closed_at IS NULL

-- name: open_leases
-- Who says to be alive.
SELECT id, renewed_at, lease_until FROM {workers} WHERE closed_at IS NULL

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
-- Every queue with what waits and what runs in it.
SELECT q.name, q.paused_at, q.paused_by, q.max_queued,
    (SELECT count(*) FROM {live} AS l WHERE l.queue = q.name AND l.worker_id IS NULL),
    (SELECT count(*) FROM {live} AS l WHERE l.queue = q.name AND l.worker_id IS NOT NULL)
FROM {queues} AS q ORDER BY q.name

-- name: remembered
-- A value that the database keeps for us.
SELECT value FROM {meta} WHERE key = :key

-- name: remember
INSERT INTO {meta} (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- ---------------------------------------------------------------- db check

-- name: orphans
-- Rows that point to a job that is not there.
SELECT 'live', l.id FROM {live} AS l WHERE NOT EXISTS (SELECT 1 FROM {jobs} AS j WHERE j.id = l.job_id)
UNION ALL
SELECT 'executions', e.id FROM {executions} AS e WHERE NOT EXISTS (SELECT 1 FROM {jobs} AS j WHERE j.id = e.job_id)
UNION ALL
SELECT 'skips', s.id FROM {skips} AS s WHERE NOT EXISTS (SELECT 1 FROM {jobs} AS j WHERE j.id = s.job_id)

-- name: miscounted
-- Jobs whose counters do not equal their history; what retention pruned is added by the caller.
SELECT j.id, j.completed, j.failed, j.timed_out, j.cancelled, j.lost, j.pruned,
    sum(CASE WHEN e.result = 'completed' THEN 1 ELSE 0 END), sum(CASE WHEN e.result = 'failed' THEN 1 ELSE 0 END),
    sum(CASE WHEN e.result = 'timed_out' THEN 1 ELSE 0 END), sum(CASE WHEN e.result = 'cancelled' THEN 1 ELSE 0 END),
    sum(CASE WHEN e.result = 'lost' THEN 1 ELSE 0 END)
FROM {jobs} AS j LEFT JOIN {executions} AS e ON e.job_id = j.id AND e.step = ''
WHERE j.deleted_at IS NULL
GROUP BY j.id, j.completed, j.failed, j.timed_out, j.cancelled, j.lost, j.pruned
HAVING j.completed <> sum(CASE WHEN e.result = 'completed' THEN 1 ELSE 0 END)
    OR j.failed <> sum(CASE WHEN e.result = 'failed' THEN 1 ELSE 0 END)
    OR j.timed_out <> sum(CASE WHEN e.result = 'timed_out' THEN 1 ELSE 0 END)
    OR j.cancelled <> sum(CASE WHEN e.result = 'cancelled' THEN 1 ELSE 0 END)
    OR j.lost <> sum(CASE WHEN e.result = 'lost' THEN 1 ELSE 0 END)

-- name: misskipped
-- The same for skips.
SELECT j.id, j.skipped, j.pruned, CAST(coalesce(sum(s.count), 0) AS {bigint}) FROM {jobs} AS j LEFT JOIN {skips} AS s ON s.job_id = j.id
WHERE j.deleted_at IS NULL
GROUP BY j.id, j.skipped, j.pruned HAVING j.skipped <> coalesce(sum(s.count), 0)

-- name: twice
-- Occurrences that stand in `live` and in history under one attempt.
SELECT l.id FROM {live} AS l JOIN {executions} AS e
ON e.job_id = l.job_id AND e.number = l.number AND e.step = l.step AND e.attempt = l.attempt
