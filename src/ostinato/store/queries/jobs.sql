-- What is to come.

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

-- name: insert_alike_jobs
-- New jobs that differ only in id and args. What they share is bound once: read from the row of one of them it would
-- go through a table of its own in SQLite (5.8 instead of 3.2 µs each).
INSERT INTO {jobs} (id, args, app, key, held_key, name, description, task, queue, priority, kind, schedule, policies, tags,
    metadata, owner, declared, created_at, updated_at, anchor, version, next_due_at, computed_at, last_due_at,
    reset_at, last_number, last_execution_number, repeats_done, period_start, period_failures, completed,
    failed, timed_out, cancelled, lost, skipped, paused_at, cancelled_at, ended_at, ended_as, deleted_at)
SELECT u.id, u.args, {shared: app text, key text, held_key text, name text, description text, task text, queue text, priority bigint, kind text, schedule json, policies json, tags json, metadata json, owner text, declared text, created_at instant, updated_at instant, anchor instant, version bigint, next_due_at instant, computed_at instant, last_due_at instant, reset_at instant, last_number bigint, last_execution_number bigint, repeats_done bigint, period_start instant, period_failures bigint, completed bigint, failed bigint, timed_out bigint, cancelled bigint, lost bigint, skipped bigint, paused_at instant, cancelled_at instant, ended_at instant, ended_as text, deleted_at instant}
FROM {rows: id uuid, args json}

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
WHERE {found_by: j.id u.id}

-- name: update_usual_facts
-- The same for jobs of which nothing but this has changed, as when a run is fired or completes: less than half to write.
UPDATE {jobs} AS j SET held_key = u.held_key, next_due_at = u.next_due_at, computed_at = u.computed_at,
    last_due_at = u.last_due_at, last_number = u.last_number, last_execution_number = u.last_execution_number,
    repeats_done = u.repeats_done, completed = u.completed, ended_at = u.ended_at, ended_as = u.ended_as
FROM {rows: id uuid, held_key text, next_due_at instant, computed_at instant, last_due_at instant, last_number bigint, last_execution_number bigint, repeats_done bigint, completed bigint, ended_at instant, ended_as text}
WHERE {found_by: j.id u.id}

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
FROM {jobs} AS j JOIN {live} AS l ON {found_by: l.job_id j.id} WHERE j.id {in: ids uuid} ORDER BY j.id, l.id {for_update}

-- name: fire_plainly
-- Jobs of which one plain time was due: it has been dealt with, and the next one is named.
UPDATE {jobs} AS j SET last_due_at = u.due_at, next_due_at = u.next_due_at, computed_at = :now,
    last_number = j.last_number + 1, last_execution_number = j.last_execution_number + 1
FROM {rows: id uuid, due_at instant, next_due_at instant} WHERE {found_by: j.id u.id}

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

-- name: jobs_by_key_anywhere
-- The jobs of all apps that hold a key now, or else had it last: the newest first.
SELECT app, id, held_key FROM {jobs} WHERE key = :key AND deleted_at IS NULL ORDER BY id DESC

-- name: declared_keys
-- The jobs of an app that come from declarations.
SELECT id, key FROM {jobs} WHERE app = :app AND declared IS NOT NULL AND key IS NOT NULL AND deleted_at IS NULL

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

-- name: jobs_awaited
-- Jobs, in the order of their ids, that somebody should be called for: a time to come, or something that waits.
SELECT j.id FROM {jobs} AS j
WHERE j.id > :after AND j.deleted_at IS NULL AND (j.next_due_at IS NOT NULL
    OR EXISTS (SELECT 1 FROM {live} AS l WHERE l.job_id = j.id))
ORDER BY j.id LIMIT :limit

-- name: jobs_after
-- The next jobs in the order of their ids, for retention to look at.
SELECT id, kind, policies, ended_at, cancelled_at, last_execution_number FROM {jobs}
WHERE id > :after AND deleted_at IS NULL ORDER BY id LIMIT :limit

-- name: expire_jobs
-- Run-once jobs that finished long ago and that nothing runs for: deleted, if they still are what they were.
UPDATE {jobs} AS j SET deleted_at = :now
FROM {rows: job_id uuid, before instant}
WHERE {found_by: j.id u.job_id} AND j.deleted_at IS NULL
  AND {greatest}(coalesce(j.ended_at, j.cancelled_at), coalesce(j.cancelled_at, j.ended_at)) < u.before
  AND NOT EXISTS (SELECT 1 FROM {live} AS l WHERE {found_by: l.job_id j.id})
RETURNING id

-- name: delete_jobs
-- The last thing to go.
DELETE FROM {jobs} WHERE id {in: ids uuid}

-- name: lock_pruned
-- What retention took away from a job so far.
SELECT pruned FROM {jobs} WHERE id = :id {for_update}

-- name: note_pruned
-- What retention took away, so that counters can still be checked against history.
UPDATE {jobs} SET pruned = :pruned WHERE id = :id
