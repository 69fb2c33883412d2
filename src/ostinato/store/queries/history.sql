-- History: executions, skips, events.

-- name: insert_executions
-- Attempts that have ended.
INSERT INTO {executions} ({columns executions})
SELECT {columns executions as u}
FROM {rows of executions}
WHERE true

-- name: already_settled
-- How, under which fence and when these ended: a settle whose answer was lost is repeated safely.
SELECT id, fence, finished_at, outcome FROM {executions} WHERE id {in: ids uuid}

-- name: last_execution
-- The newest execution of a job: of its newest occurrences the one queued last (a manual retry may belong to an older
-- occurrence).
SELECT {columns executions}
FROM (SELECT * FROM {executions} WHERE job_id = :job AND step = ''
    ORDER BY number DESC, step DESC, attempt DESC LIMIT 100) AS t
ORDER BY execution_number DESC LIMIT 1

-- name: last_failure
-- The newest failed occurrence of a job after its last attempt.
SELECT {columns executions as e}
FROM {executions} AS e
WHERE e.job_id = :job AND e.step = '' AND e.outcome IN ('failed', 'timed_out', 'lost')
  AND (CAST(:asked AS {json}) IS NULL OR e.asked = :asked)
  AND NOT EXISTS (SELECT 1 FROM {executions} AS x
                  WHERE x.job_id = e.job_id AND x.number = e.number AND x.step = '' AND x.attempt > e.attempt)
ORDER BY e.number DESC, e.attempt DESC LIMIT 1

-- name: executions_of
-- The history of a job, the newest occurrence first.
SELECT {columns executions}
FROM {executions} WHERE job_id = :job
  AND (CAST(:number AS {bigint}) IS NULL OR (number, attempt) < (CAST(:number AS {bigint}), CAST(:attempt AS {bigint})))
ORDER BY number DESC, attempt DESC LIMIT :limit

-- name: list_executions
-- All history, the newest first.
SELECT {columns executions}
FROM {executions} WHERE (CAST(:before AS {uuid}) IS NULL OR id < CAST(:before AS {uuid}))
ORDER BY id DESC LIMIT :limit

-- name: executions_by_id
SELECT {columns executions}
FROM {executions} WHERE id {in: ids uuid}

-- name: durations_of
-- Durations of the newest completed runs of a job, in microseconds.
SELECT finished_at - started_at FROM {executions}
WHERE job_id = :job AND step = '' AND outcome = 'completed' AND started_at IS NOT NULL
ORDER BY number DESC LIMIT :limit

-- name: dealt_times
-- Due times between two instants that have an execution.
SELECT due_at FROM {executions} WHERE job_id = :job AND asked = 'schedule' AND due_at >= :since AND due_at <= :until
UNION SELECT due_at FROM {live} WHERE job_id = :job AND asked = 'schedule' AND due_at >= :since AND due_at <= :until

-- name: dealt_ranges
-- Ranges of skipped due times that end at an instant or later.
SELECT {columns skips} FROM {skips}
WHERE job_id = :job AND last_due_at >= :since ORDER BY last_due_at

-- name: nth_newest
-- The newest execution of a job beyond its `kept` newest ones. Steps belong to their runs.
SELECT number, attempt FROM {executions} WHERE job_id = :job AND step = '' ORDER BY number DESC, attempt DESC LIMIT 1 OFFSET :kept

-- name: prunable
-- Executions of a job, up to that one, that ended before an instant; the oldest first.
SELECT id FROM {executions}
WHERE job_id = :job AND finished_at < :before
  AND number <= CAST(:number AS {bigint}) AND (number < CAST(:number AS {bigint})
    OR (step = '' AND attempt <= CAST(:attempt AS {bigint})))
ORDER BY number, attempt LIMIT :limit

-- name: delete_executions
DELETE FROM {executions} WHERE id {in: ids uuid} RETURNING outcome, step, number, due_at

-- name: executions_of_jobs
-- Some history of jobs that are being deleted.
SELECT id FROM {executions} WHERE job_id {in: ids uuid} LIMIT :limit

-- name: insert_skips
-- Due times that were not run.
INSERT INTO {skips} ({columns skips})
SELECT {columns skips as u}
FROM {rows of skips}
WHERE true

-- name: extend_skips
-- Extend the last skip of a job by a skip that continues it; return the ids of the new skips that did.
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
SELECT {columns skips} FROM {skips}
WHERE job_id = :job AND (CAST(:before AS {instant}) IS NULL OR last_due_at < CAST(:before AS {instant}))
ORDER BY last_due_at DESC LIMIT :limit

-- name: insert_events
INSERT INTO {events} ({columns events})
SELECT {columns events as u}
FROM {rows of events}
WHERE true

-- name: list_events
-- Events, newest first.
SELECT {columns events} FROM {events}
WHERE (CAST(:job AS {uuid}) IS NULL OR job_id = CAST(:job AS {uuid}))
  AND (CAST(:before AS {uuid}) IS NULL OR id < CAST(:before AS {uuid}))
ORDER BY id DESC LIMIT :limit

-- name: delete_old_events
-- Ids are in the order of time: the oldest come first.
DELETE FROM {events} WHERE id IN (SELECT id FROM {events} WHERE id < :before ORDER BY id LIMIT :limit)

-- name: delete_events_of
-- The deletion of a job stays as long as any event.
DELETE FROM {events} WHERE job_id {in: ids uuid} AND kind <> 'job.deleted'
