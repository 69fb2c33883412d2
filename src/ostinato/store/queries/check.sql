-- What contradicts itself. Nothing here takes a lock.

-- name: orphans
-- Rows that point to a job that is not there.
SELECT 'live', l.id FROM {live} AS l WHERE NOT EXISTS (SELECT 1 FROM {jobs} AS j WHERE j.id = l.job_id)
UNION ALL
SELECT 'executions', e.id FROM {executions} AS e WHERE NOT EXISTS (SELECT 1 FROM {jobs} AS j WHERE j.id = e.job_id)
UNION ALL
SELECT 'skips', s.id FROM {skips} AS s WHERE NOT EXISTS (SELECT 1 FROM {jobs} AS j WHERE j.id = s.job_id)
LIMIT :limit

-- name: lines_without_size
-- Executions that have log lines of unknown size.
SELECT DISTINCT t.execution_id FROM {logs} AS t
WHERE NOT EXISTS (SELECT 1 FROM {log_sizes} AS s WHERE s.execution_id = t.execution_id)
LIMIT :limit

-- name: jobs_to_audit
-- The next jobs in the order of their ids, about how many executions each has, and what retention removed.
SELECT id, completed + failed + timed_out + cancelled + lost, pruned FROM {jobs}
WHERE id > :after AND deleted_at IS NULL ORDER BY id LIMIT :limit

-- name: pruned_of
-- The same of jobs by their ids.
SELECT id, completed + failed + timed_out + cancelled + lost, pruned FROM {jobs}
WHERE id {in: ids uuid} AND deleted_at IS NULL

-- name: audited_executions
-- What an audit needs of the history of jobs.
SELECT job_id, number, step, attempt, execution_number, asked, due_at, run_at, queued_at, started_at, finished_at, result,
    version, failures, losses
FROM {executions} WHERE job_id {in: ids uuid}

-- name: audited_skips
SELECT id, job_id, reason, first_due_at, last_due_at, count, recorded_at, in_the_way FROM {skips}
WHERE job_id {in: ids uuid}

-- name: audited_events
-- What changed the schedule of jobs, or took back what was queued.
SELECT id, at, kind, job_id, execution_id, worker_id, by, data FROM {events}
WHERE job_id {in: ids uuid} AND kind IN ('job.edited', 'job.rewound', 'job.retried', 'job.paused', 'job.cancelled')
ORDER BY id

-- name: clocks_set_back
-- When the clock was set, and by how much.
SELECT at, data FROM {events} WHERE kind = 'clock.jumped' ORDER BY id DESC LIMIT 100

-- name: known_workers
SELECT id FROM {workers} WHERE id {in: ids uuid}

-- name: flaws_told
-- Flaws of jobs that an event has told.
SELECT job_id, data FROM {events} WHERE job_id {in: ids uuid} AND kind = 'audit.flaw' AND at > :since

-- name: told_lately
-- Flaws of jobs that events have told, the newest first.
SELECT e.job_id, e.data FROM {events} AS e
WHERE e.kind = 'audit.flaw' AND e.at > :since
    AND EXISTS (SELECT 1 FROM {jobs} AS j WHERE j.id = e.job_id AND j.deleted_at IS NULL)
ORDER BY e.id DESC LIMIT :limit
