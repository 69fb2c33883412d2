-- Reads of the auditor, without locks.

-- name: orphans
-- Rows that belong to a job that does not exist.
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
-- The next jobs in the order of their ids, the approximate number of executions of each, and what retention removed.
SELECT id, completed + failed + timed_out + cancelled + lost, pruned FROM {jobs}
WHERE id > :after AND deleted_at IS NULL ORDER BY id LIMIT :limit

-- name: pruned_of
-- The same for jobs by their ids.
SELECT id, completed + failed + timed_out + cancelled + lost, pruned FROM {jobs}
WHERE id {in: ids uuid} AND deleted_at IS NULL

-- name: audited_executions
-- The history of jobs that an audit needs.
SELECT job_id, number, step, attempt, execution_number, asked, due_at, run_at, queued_at, started_at, finished_at, outcome,
    version, failures, losses
FROM {executions} WHERE job_id {in: ids uuid}

-- name: audited_skips
SELECT {columns skips} FROM {skips}
WHERE job_id {in: ids uuid}

-- name: audited_events
-- Changes to the schedule of jobs, and withdrawals of queued executions.
SELECT {columns events} FROM {events}
WHERE job_id {in: ids uuid} AND kind IN ('job.edited', 'job.rewound', 'job.retried', 'job.paused', 'job.cancelled')
ORDER BY id

-- name: clocks_set_back
-- When the clock jumped, and by how much.
SELECT at, data FROM {events} WHERE kind = 'clock.jumped' ORDER BY id DESC LIMIT 100

-- name: known_workers
SELECT id FROM {workers} WHERE id {in: ids uuid}

-- name: reported_flaws
-- Flaws of jobs that an event has reported.
SELECT job_id, data FROM {events} WHERE job_id {in: ids uuid} AND kind = 'audit.flaw' AND at > :since

-- name: recent_flaws
-- Flaws of jobs that events have reported, the newest first.
SELECT e.job_id, e.data FROM {events} AS e
WHERE e.kind = 'audit.flaw' AND e.at > :since
    AND EXISTS (SELECT 1 FROM {jobs} AS j WHERE j.id = e.job_id AND j.deleted_at IS NULL)
ORDER BY e.id DESC LIMIT :limit
