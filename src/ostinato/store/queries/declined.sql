-- Declared jobs that were deleted.

-- name: decline
-- Note a declared job that was just deleted.
INSERT INTO {declined} (app, key, declared, at, by) VALUES (:app, :key, :declared, :now, :by)
ON CONFLICT (app, key) DO UPDATE SET declared = excluded.declared, at = excluded.at, by = excluded.by

-- name: list_declined
-- The declared jobs that stay deleted. Left out: keys of a job that is declared, or that was made after the delete.
SELECT d.app, d.key, d.declared, d.at, d.by FROM {declined} AS d
WHERE NOT EXISTS (SELECT 1 FROM {jobs} AS j WHERE j.app = d.app AND j.key = d.key AND j.deleted_at IS NULL
    AND (j.declared IS NOT NULL OR j.created_at >= d.at))
ORDER BY d.app, d.key

-- name: remove_declined
-- Allow a declaration to make its job again.
DELETE FROM {declined} WHERE app = :app AND key = :key AND declared = :declared
