-- Read-only views with the names, columns and timestamps of the systems of the seeds, for queries that people have.
-- Words with an @ are written for each database by views.py.

-- name: jobs
-- Seed 003.
SELECT @uuid(j.id) AS id, @text(j.args source_id) AS source_id, @text(j.args source_name) AS source_name,
    @text(j.args url) AS url, CASE s.status WHEN 'queued' THEN 'scheduled' ELSE s.status END AS status,
    @at(j.created_at) AS created_at, @at(j.updated_at) AS updated_at,
    @at(coalesce((SELECT max(l.started_at) FROM {live} AS l WHERE l.job_id = j.id AND l.step = ''),
        (SELECT e.started_at FROM {executions} AS e WHERE e.job_id = j.id AND e.step = ''
         ORDER BY e.number DESC, e.attempt DESC LIMIT 1))) AS started_at,
    @at((SELECT e.finished_at FROM {executions} AS e WHERE e.job_id = j.id AND e.step = ''
         ORDER BY e.number DESC, e.attempt DESC LIMIT 1)) AS completed_at,
    (SELECT e.error FROM {executions} AS e WHERE e.job_id = j.id AND e.step = ''
     ORDER BY e.number DESC, e.attempt DESC LIMIT 1) AS error_message,
    CASE j.kind WHEN 'every' THEN @interval_minutes(j.schedule every) END AS interval_minutes,
    CASE j.kind WHEN 'every' THEN @interval_type(j.schedule every) END AS interval_type,
    @at(s.next_run_at) AS next_run_at, @boolean(j.paused_at IS NOT NULL) AS is_paused, @at(j.paused_at) AS paused_at,
    @at(j.cancelled_at) AS cancelled_at, coalesce(@number(j.policies max_retries), 3) AS max_retries,
    coalesce(@number(j.policies backoff.base), 60000000) / 1000000 AS retry_backoff_seconds,
    coalesce((SELECT max(l.failures) FROM {live} AS l WHERE l.job_id = j.id AND l.step = ''), 0) AS current_retry_count,
    @uuid((SELECT l.worker_id FROM {live} AS l WHERE l.job_id = j.id AND l.worker_id IS NOT NULL
     ORDER BY l.started_at LIMIT 1)) AS lock_token,
    @at((SELECT min(l.started_at) FROM {live} AS l WHERE l.job_id = j.id AND l.worker_id IS NOT NULL)) AS lock_acquired_at,
    @json(j.metadata) AS metadata,
    coalesce(@text(j.schedule cron), @text(j.schedule schedule_time)) AS schedule_time,
    @boolean(j.kind IN ('every', 'cron')) AS schedule_enabled
FROM {jobs} AS j JOIN {job_status} AS s ON s.id = j.id
WHERE j.deleted_at IS NULL

-- name: job_executions
-- Seed 003. An imported execution has the id that it had there.
SELECT coalesce(@text(e.account imported_id), @words(e.id)) AS id, @uuid(e.job_id) AS job_id, e.execution_number,
    CASE WHEN e.outcome IN ('completed', 'cancelled') THEN e.outcome ELSE 'failed' END AS status,
    @at(coalesce(e.started_at, e.queued_at)) AS started_at, @at(e.finished_at) AS completed_at,
    (e.finished_at - coalesce(e.started_at, e.finished_at)) / 1000 AS duration_ms,
    coalesce(@number(e.account items_crawled), 0) AS items_crawled,
    coalesce(@number(e.account items_indexed), 0) AS items_indexed,
    e.error AS error_message, e.traceback AS stack_trace, @number(e.account cpu_ms) AS cpu_time_ms,
    @number(e.account memory_mb) AS memory_peak_mb, e.attempt AS retry_attempt,
    @json(coalesce(@text(e.account metadata), '{}')) AS metadata
FROM {executions} AS e JOIN {jobs} AS j ON j.id = e.job_id
WHERE e.step = '' AND j.deleted_at IS NULL
UNION ALL
SELECT @words(l.id), @uuid(l.job_id), l.execution_number, 'running', @at(l.started_at), @at(NULL), NULL, 0, 0, NULL, NULL,
    NULL, NULL, l.attempt, @json('{}')
FROM {live} AS l JOIN {jobs} AS j ON j.id = l.job_id
WHERE l.step = '' AND l.worker_id IS NOT NULL AND j.deleted_at IS NULL

-- name: retries
-- Seed 000. A period that is over counts no failures.
SELECT substr(r.key, 8) AS source_name, @at(r.period_start) AS period_start,
    CASE WHEN r.period_start + r.period > @now() THEN r.period_failures ELSE 0 END AS retry_count,
    @at(coalesce((SELECT min(l.run_at) FROM {live} AS l
        WHERE l.job_id = r.id AND l.step = '' AND l.waits_for = 'time' AND l.failures > 0), r.reset_at)) AS next_retry_at
FROM (SELECT j.id, j.key, j.period_start, j.period_failures, j.reset_at,
        coalesce(@number(j.policies retry_reset_period), 0) AS period
    FROM {jobs} AS j WHERE j.task = 'fetch' AND j.key LIKE 'source:%' AND j.deleted_at IS NULL) AS r
