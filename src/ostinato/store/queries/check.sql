-- What would not add up.

-- name: orphans
-- Rows that point to a job that is not there.
SELECT 'live', l.id FROM {live} AS l WHERE NOT EXISTS (SELECT 1 FROM {jobs} AS j WHERE j.id = l.job_id)
UNION ALL
SELECT 'executions', e.id FROM {executions} AS e WHERE NOT EXISTS (SELECT 1 FROM {jobs} AS j WHERE j.id = e.job_id)
UNION ALL
SELECT 'skips', s.id FROM {skips} AS s WHERE NOT EXISTS (SELECT 1 FROM {jobs} AS j WHERE j.id = s.job_id)

-- name: lines_without_size
-- Executions that have lines, though nobody knows how many.
SELECT DISTINCT t.execution_id FROM {logs} AS t
WHERE NOT EXISTS (SELECT 1 FROM {log_sizes} AS s WHERE s.execution_id = t.execution_id)

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

-- name: kept_waiting
-- Executions that wait for their turn, though nothing else of their job is live that could give it to them.
SELECT l.id FROM {live} AS l WHERE l.waits_for = 'turn'
  AND NOT EXISTS (SELECT 1 FROM {live} AS o WHERE o.job_id = l.job_id AND o.id <> l.id)

-- name: twice
-- Occurrences that stand in `live` and in history under one attempt.
SELECT l.id FROM {live} AS l JOIN {executions} AS e
ON e.job_id = l.job_id AND e.number = l.number AND e.step = l.step AND e.attempt = l.attempt
