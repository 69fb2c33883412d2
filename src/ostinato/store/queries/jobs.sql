-- Jobs.

-- name: insert_jobs
-- New jobs, definition and facts.
INSERT INTO {jobs} ({columns jobs})
SELECT {columns jobs as u}
FROM {rows of jobs}
WHERE true

-- name: insert_alike_jobs
-- New jobs that differ only in id and args. Shared columns are bound once: read from the row of one job, they would go
-- through a temporary table in SQLite (5.8 instead of 3.2 µs each).
INSERT INTO {jobs} (id, args, {columns jobs without id, args})
SELECT u.id, u.args, {shared of jobs without id, args}
FROM {rows: id uuid, args json}

-- name: update_facts
-- New facts of jobs that this transaction has locked.
UPDATE {jobs} AS j SET held_key = u.held_key, {set facts from u without created_at},
    aside_until = NULL
FROM {rows of facts with id uuid, held_key text without created_at}
WHERE {found_by: j.id u.id}

-- name: update_usual_facts
-- The same for jobs with only these changes, as when a run is fired or completes: less than half to write.
UPDATE {jobs} AS j SET held_key = u.held_key, {set facts from u only next_due_at, computed_at, last_due_at, last_number, last_execution_number, repeats_done,
    completed, ended_at, ended_as}
FROM {rows of facts with id uuid, held_key text only next_due_at, computed_at, last_due_at, last_number, last_execution_number, repeats_done,
    completed, ended_at, ended_as}
WHERE {found_by: j.id u.id}

-- name: update_definition
-- An edit: the definition of one job that this transaction has locked.
UPDATE {jobs} SET app = :app, key = :key, name = :name, description = :description, task = :task, args = :args,
    queue = :queue, priority = :priority, kind = :kind, schedule = :schedule, policies = :policies, tags = :tags,
    metadata = :metadata, owner = :owner, declared = :declared
WHERE id = :id

-- name: lock_facts
-- The facts of jobs, locked in the order of their ids.
SELECT id, {columns facts}
FROM {jobs} WHERE id {in: ids uuid} ORDER BY id {for_update}

-- name: lock_running
-- Jobs by their ids, each with its live rows, all locked: the facts, and the columns of the rows that may have changed
-- since the claim.
SELECT j.id, {columns facts as j},
    l.id, l.fence, l.worker_id, l.cancel_asked_at, l.cancel_by, l.checkpoint
FROM {jobs} AS j JOIN {live} AS l ON {found_by: l.job_id j.id} WHERE j.id {in: ids uuid} ORDER BY j.id, l.id {for_update}

-- name: definitions
-- Definitions of jobs.
SELECT id, version, {columns definition without kind}
FROM {jobs} WHERE id {in: ids uuid}

-- name: facts
-- The facts of jobs that are not deleted, unlocked.
SELECT id, {columns facts}
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
-- The jobs of all apps that hold a key, or else held it last: the newest first.
SELECT app, id, held_key FROM {jobs} WHERE key = :key AND deleted_at IS NULL ORDER BY id DESC

-- name: declared_keys
-- The jobs of an app that come from declarations.
SELECT id, key FROM {jobs} WHERE app = :app AND declared IS NOT NULL AND key IS NOT NULL AND deleted_at IS NULL

-- name: status_of
-- The status of one job by the view.
SELECT status FROM {job_status} WHERE id = :id

-- name: lock_due
-- Jobs that are due, or due by the horizon without live rows; those that another process has locked are skipped. (With
-- NOT EXISTS PostgreSQL would rather hash the whole of live.)
SELECT j.id, {columns facts as j}
FROM {jobs} AS j
WHERE j.next_due_at <= :horizon
  AND (j.next_due_at <= :now OR (SELECT l.id FROM {live} AS l WHERE l.job_id = j.id LIMIT 1) IS NULL)
  AND (j.aside_until IS NULL OR j.aside_until <= :now)
  AND NOT (j.queue {in: bounded text})
ORDER BY j.next_due_at LIMIT :limit {for_update_skip_locked of j}

-- name: lock_bounded
-- Bounded queues. Only one transaction at a time fires into them.
SELECT name FROM {queues} WHERE max_queued IS NOT NULL ORDER BY name {for_update}

-- name: bounded_queues
-- The same, with the number of executions that may start in each now.
SELECT q.name, q.max_queued, (SELECT count(*) FROM {live} AS l
    WHERE l.queue = q.name AND l.waits_for IS NULL AND l.worker_id IS NULL)
FROM {queues} AS q WHERE q.max_queued IS NOT NULL

-- name: lock_due_in
-- Like lock_due, for one bounded queue with room for a number: by priority, then the oldest, then the job whose last
-- run is longest ago.
SELECT j.id, {columns facts as j}
FROM {jobs} AS j
WHERE j.next_due_at <= :now AND j.queue = :queue AND (j.aside_until IS NULL OR j.aside_until <= :now)
ORDER BY j.priority, j.next_due_at, j.computed_at LIMIT :limit {for_update_skip_locked of j}

-- name: next_due
-- The next time for the schedule to act. Jobs held back by a full queue wait for a claim from it.
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
SELECT id, {columns facts}
FROM {jobs} WHERE computed_at > :now AND id > :after
ORDER BY id LIMIT :limit {for_update}

-- name: lock_zoned
-- Cron jobs: their times depend on zone data.
SELECT id, {columns facts}
FROM {jobs} WHERE kind = 'cron' AND next_due_at IS NOT NULL AND id > :after
ORDER BY id LIMIT :limit {for_update}

-- name: set_aside
-- Jobs that no rule can handle now: try again later. Their due time stays.
UPDATE {jobs} SET aside_until = :until WHERE id {in: ids uuid}

-- name: deleted_jobs
-- Deleted jobs without running executions.
SELECT j.id FROM {jobs} AS j
WHERE j.deleted_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {live} AS l WHERE l.job_id = j.id)
ORDER BY j.deleted_at LIMIT :limit

-- name: jobs_after
-- The next jobs in the order of their ids, for retention.
SELECT id, kind, policies, ended_at, cancelled_at, last_execution_number FROM {jobs}
WHERE id > :after AND deleted_at IS NULL ORDER BY id LIMIT :limit

-- name: expire_jobs
-- Run-once jobs that finished long ago and have no live rows: deleted, unless they have changed.
UPDATE {jobs} AS j SET deleted_at = :now
FROM {rows: job_id uuid, before instant}
WHERE {found_by: j.id u.job_id} AND j.deleted_at IS NULL
  AND {greatest}(coalesce(j.ended_at, j.cancelled_at), coalesce(j.cancelled_at, j.ended_at)) < u.before
  AND NOT EXISTS (SELECT 1 FROM {live} AS l WHERE {found_by: l.job_id j.id})
RETURNING id

-- name: delete_jobs
-- The last rows of a job to be deleted.
DELETE FROM {jobs} WHERE id {in: ids uuid}

-- name: lock_pruned
-- What retention has removed from a job so far.
SELECT pruned FROM {jobs} WHERE id = :id {for_update}

-- name: note_pruned
-- Note what retention removed, so that counters can still be checked against history.
UPDATE {jobs} SET pruned = :pruned WHERE id = :id

-- name: note_many_pruned
-- The same for many new jobs, whose former runs were counted elsewhere.
UPDATE {jobs} AS j SET pruned = u.pruned
FROM {rows: id uuid, pruned json} WHERE {found_by: j.id u.id}

-- name: note_restart
-- Note the counters of a job at its restart: they go on, and some count from there.
UPDATE {jobs} SET restarted = :counted WHERE id = :id
