-- Ended credentials.

-- name: bar
-- A second ending moves the instant forward, never back. An ending without an end stays so.
INSERT INTO {barred} (what, since, until, by) VALUES (:what, :since, CAST(:until AS {instant}), :by)
ON CONFLICT (what) DO UPDATE SET
    since = {greatest}({barred}.since, excluded.since), by = excluded.by,
    until = CASE WHEN {barred}.until IS NULL OR excluded.until IS NULL THEN NULL
        ELSE {greatest}({barred}.until, excluded.until) END

-- name: bars
-- Whether a token was ended: itself, by name, or with all others.
SELECT 1 FROM {barred} WHERE what IN (:token, :name, 'all') AND (what = :token OR since >= :issued_at) LIMIT 1

-- name: delete_old_bars
DELETE FROM {barred} WHERE until <= :now
