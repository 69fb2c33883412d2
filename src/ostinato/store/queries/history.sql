-- What has been: executions, skips, events.

-- name: insert_executions
-- Attempts that have ended.
INSERT INTO {executions} (id, job_id, number, step, attempt, execution_number, asked, due_at, run_at, queued_at,
    started_at, finished_at, result, task, queue, worker_id, fence, version, args, value, error_kind, error, traceback,
    failures, losses, releases, checkpoint, by, account)
SELECT u.id, u.job_id, u.number, u.step, u.attempt, u.execution_number, u.asked, u.due_at, u.run_at, u.queued_at,
    u.started_at, u.finished_at, u.result, u.task, u.queue, u.worker_id, u.fence, u.version, u.args, u.value, u.error_kind,
    u.error, u.traceback, u.failures, u.losses, u.releases, u.checkpoint, u.by, u.account
FROM {rows: id uuid, job_id uuid, number bigint, step text, attempt bigint, execution_number bigint, asked text, due_at instant, run_at instant, queued_at instant, started_at instant, finished_at instant, result text, task text, queue text, worker_id uuid, fence bigint, version bigint, args json, value json, error_kind text, error text, traceback text, failures bigint, losses bigint, releases bigint, checkpoint json, by text, account json}
WHERE true

-- name: already_settled
-- How these have ended, under which fence and when: a settle whose answer was lost is repeated safely.
SELECT id, fence, finished_at, result FROM {executions} WHERE id {in: ids uuid}

-- name: last_execution
-- The newest execution of a job: of its newest occurrences the one that was queued last (a retry by hand may belong to
-- one before the last).
SELECT id, job_id, number, step, attempt, execution_number, asked, due_at, run_at, queued_at, started_at, finished_at,
    result, task, queue, worker_id, fence, version, args, value, error_kind, error, traceback, failures, losses, releases,
    checkpoint, by, account
FROM (SELECT * FROM {executions} WHERE job_id = :job AND step = ''
    ORDER BY number DESC, step DESC, attempt DESC LIMIT 100) AS t
ORDER BY execution_number DESC LIMIT 1

-- name: last_failure
-- The newest failed occurrence of a job, as its last attempt left it.
SELECT e.id, e.job_id, e.number, e.step, e.attempt, e.execution_number, e.asked, e.due_at, e.run_at, e.queued_at,
    e.started_at, e.finished_at, e.result, e.task, e.queue, e.worker_id, e.fence, e.version, e.args, e.value, e.error_kind,
    e.error, e.traceback, e.failures, e.losses, e.releases, e.checkpoint, e.by, e.account
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
    checkpoint, by, account
FROM {executions} WHERE job_id = :job
  AND (CAST(:number AS {bigint}) IS NULL OR (number, attempt) < (CAST(:number AS {bigint}), CAST(:attempt AS {bigint})))
ORDER BY number DESC, attempt DESC LIMIT :limit

-- name: list_executions
-- All history, the newest first.
SELECT id, job_id, number, step, attempt, execution_number, asked, due_at, run_at, queued_at, started_at, finished_at,
    result, task, queue, worker_id, fence, version, args, value, error_kind, error, traceback, failures, losses, releases,
    checkpoint, by, account
FROM {executions} WHERE (CAST(:before AS {uuid}) IS NULL OR id < CAST(:before AS {uuid}))
ORDER BY id DESC LIMIT :limit

-- name: executions_by_id
SELECT id, job_id, number, step, attempt, execution_number, asked, due_at, run_at, queued_at, started_at, finished_at,
    result, task, queue, worker_id, fence, version, args, value, error_kind, error, traceback, failures, losses, releases,
    checkpoint, by, account
FROM {executions} WHERE id {in: ids uuid}

-- name: count_executions
-- History of a job by result.
SELECT result, count(*) FROM {executions} WHERE job_id = :job AND step = '' GROUP BY result

-- name: durations_of
-- How long the newest completed runs of a job took, in microseconds.
SELECT finished_at - started_at FROM {executions}
WHERE job_id = :job AND step = '' AND result = 'completed' AND started_at IS NOT NULL
ORDER BY number DESC LIMIT :limit

-- name: dealt_times
-- Due times between two instants that have an execution.
SELECT due_at FROM {executions} WHERE job_id = :job AND asked = 'schedule' AND due_at >= :since AND due_at <= :until
UNION SELECT due_at FROM {live} WHERE job_id = :job AND asked = 'schedule' AND due_at >= :since AND due_at <= :until

-- name: dealt_ranges
-- Ranges of due times, reaching to or beyond an instant, that were skipped.
SELECT id, job_id, reason, first_due_at, last_due_at, count, recorded_at, in_the_way FROM {skips}
WHERE job_id = :job AND last_due_at >= :since ORDER BY last_due_at

-- name: nth_newest
-- The newest execution of a job that is beyond the `kept` newest ones. Steps go with their runs.
SELECT number, attempt FROM {executions} WHERE job_id = :job AND step = '' ORDER BY number DESC, attempt DESC LIMIT 1 OFFSET :kept

-- name: prunable
-- Executions of a job up to that one that ended before an instant, the oldest first.
SELECT id FROM {executions}
WHERE job_id = :job AND finished_at < :before
  AND number <= CAST(:number AS {bigint}) AND (number < CAST(:number AS {bigint})
    OR (step = '' AND attempt <= CAST(:attempt AS {bigint})))
ORDER BY number, attempt LIMIT :limit

-- name: delete_executions
DELETE FROM {executions} WHERE id {in: ids uuid} RETURNING result, step, number, due_at

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
WHERE {found_by: skips.job_id u.job_id} AND {skips}.last_due_at = u.follows AND {skips}.reason = u.reason
  AND {skips}.in_the_way {is_not_distinct_from} u.in_the_way
RETURNING {skips}.job_id, {skips}.last_due_at

-- name: rewrite_skips
UPDATE {skips} AS s SET last_due_at = u.last_due_at, count = u.count
FROM {rows: id uuid, last_due_at instant, count bigint} WHERE {found_by: s.id u.id}

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
