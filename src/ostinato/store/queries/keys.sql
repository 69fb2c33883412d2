-- API keys.

-- name: lock_to_make_a_key
-- Several keys may be made at once, but none while all are revoked: an ending must not miss one.
SELECT 1 FROM {meta} WHERE key = 'version:core' {for_share}

-- name: lock_to_revoke_keys
SELECT 1 FROM {meta} WHERE key = 'version:core' {for_update}

-- name: insert_key
INSERT INTO {api_keys} (id, prefix, hash, name, role, created_at, created_by, expires_at, last_used_at, revoked_at,
    revoked_by)
VALUES (:id, :prefix, :hash, :name, :role, :now, :by, :expires_at, NULL, NULL, '')

-- name: key_by_prefix
SELECT id, prefix, hash, name, role, created_at, created_by, expires_at, last_used_at, revoked_at, revoked_by
FROM {api_keys} WHERE prefix = :prefix

-- name: key_by_id
SELECT id, prefix, hash, name, role, created_at, created_by, expires_at, last_used_at, revoked_at, revoked_by
FROM {api_keys} WHERE id = :id

-- name: list_keys
-- The newest first.
SELECT id, prefix, hash, name, role, created_at, created_by, expires_at, last_used_at, revoked_at, revoked_by
FROM {api_keys} WHERE (CAST(:before AS {uuid}) IS NULL OR id < CAST(:before AS {uuid})) ORDER BY id DESC LIMIT :limit

-- name: revoke_key
UPDATE {api_keys} SET revoked_at = :now, revoked_by = :by WHERE id = :id AND revoked_at IS NULL

-- name: revoke_keys
-- Every key that is not revoked yet.
UPDATE {api_keys} SET revoked_at = :now, revoked_by = :by WHERE revoked_at IS NULL

-- name: note_key_used
UPDATE {api_keys} SET last_used_at = :now WHERE id = :id AND (last_used_at IS NULL OR last_used_at < :now)
