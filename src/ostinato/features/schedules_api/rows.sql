-- Repeating jobs for the schedules API (shapes.py).

-- part: chosen_schedules
-- Ids of jobs are in the order of creation. Tags are a JSON list of texts (search.sql).
j.deleted_at IS NULL AND j.kind IN ('every', 'cron')
  AND (CAST(:tag AS {json}) IS NULL OR {position}(j.tags, '[' || CAST(:tag AS {json})) > 0
       OR {position}(j.tags, ', ' || CAST(:tag AS {json})) > 0)
  AND (CAST(:word AS {json}) IS NULL OR CAST(:word AS {json}) = CASE
      WHEN j.cancelled_at IS NOT NULL THEN 'dead'
      WHEN j.ended_at IS NOT NULL THEN CASE j.ended_as WHEN 'completed' THEN 'done' ELSE 'dead' END
      WHEN j.paused_at IS NOT NULL THEN 'paused' ELSE 'active' END)

-- name: newest_schedules
SELECT j.id FROM {jobs} AS j WHERE {part chosen_schedules} ORDER BY j.id DESC LIMIT :limit OFFSET :offset

-- name: count_schedules
SELECT count(*) FROM {jobs} AS j WHERE {part chosen_schedules}

-- name: last_errors
-- The last error of each of these jobs.
SELECT e.job_id, coalesce(e.error, e.error_kind, '')
FROM {jobs} AS j JOIN {executions} AS e ON e.id = (
    SELECT x.id FROM {executions} AS x
    WHERE x.job_id = j.id AND x.step = '' AND x.outcome IN ('failed', 'timed_out', 'lost')
    ORDER BY x.number DESC, x.attempt DESC LIMIT 1)
WHERE j.id {in: ids uuid}

-- name: restarts
-- The counters of these jobs at their last restart.
SELECT j.id, j.restarted FROM {jobs} AS j WHERE j.id {in: ids uuid} AND j.restarted <> '{}'
