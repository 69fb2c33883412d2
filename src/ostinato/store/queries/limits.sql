-- Limits across all workers (core/limits.py).

-- name: limited_keys
-- Keys with waiting rows, from one key on: by the index, from key to key.
WITH RECURSIVE k(key) AS (
    SELECT (SELECT min(limit_key) FROM {live} WHERE waits_for = 'limit' AND limit_key > :after_key)
    UNION ALL
    SELECT (SELECT min(l.limit_key) FROM {live} AS l WHERE l.waits_for = 'limit' AND l.limit_key > k.key)
    FROM k WHERE k.key IS NOT NULL)
SELECT key FROM k WHERE key IS NOT NULL LIMIT :limit

-- name: lock_limit
-- Only one transaction at a time admits rows of a key.
INSERT INTO {limits} (key, recent, until) VALUES (:key, '[]', :now)
ON CONFLICT (key) DO UPDATE SET key = excluded.key RETURNING recent

-- name: save_limit
UPDATE {limits} SET recent = :recent, until = :until WHERE key = :key

-- name: forget_limits
-- Keys that are no longer used: there may be one for each past tenant.
DELETE FROM {limits} AS k
WHERE k.until < :now AND (SELECT l.id FROM {live} AS l WHERE l.limit_key = k.key LIMIT 1) IS NULL

-- name: active_of_limit
-- Rows of a key that may start or are running; a run that waits for its steps counts as running.
SELECT count(*) FROM {live} WHERE limit_key = :key AND (waits_for IS NULL OR waits_for = 'steps')

-- name: waiting_for_limit
-- The next rows to be admitted.
SELECT id, job_id FROM {live} WHERE limit_key = :key AND waits_for = 'limit' AND run_at <= :now
ORDER BY priority, run_at LIMIT :limit {for_update_skip_locked}

-- name: let_through
UPDATE {live} SET waits_for = NULL WHERE id {in: ids uuid}

-- name: next_limited
-- The time of the next row that will then wait for a place.
SELECT min(run_at) FROM {live} WHERE waits_for = 'limit' AND run_at > :now
