-- Who has come into the dashboard.

-- name: insert_session
INSERT INTO {sessions} (hash, name, role, key_id, created_at, expires_at)
VALUES (:hash, :name, :role, CAST(:key_id AS {uuid}), :now, :until)

-- name: session_by_hash
-- One that is good now.
SELECT s.name, s.role FROM {sessions} AS s
WHERE s.hash = :hash AND s.expires_at > :now
  AND NOT EXISTS (SELECT 1 FROM {api_keys} AS k WHERE k.id = s.key_id AND k.revoked_at IS NOT NULL)

-- name: delete_session
DELETE FROM {sessions} WHERE hash = :hash

-- name: delete_old_sessions
DELETE FROM {sessions} WHERE expires_at <= :now
