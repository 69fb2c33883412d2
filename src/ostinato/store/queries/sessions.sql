-- Sessions of the dashboard.

-- name: insert_session
INSERT INTO {sessions} (hash, name, role, key_id, credential, signer, issued_at, created_at, expires_at)
VALUES (:hash, :name, :role, CAST(:key_id AS {uuid}), :credential, :signer, :issued_at, :now, :until)

-- name: session_by_hash
-- A valid session: its API key is valid too, or its token was verified by today's key and is not barred.
SELECT s.name, s.role, s.credential, s.expires_at, s.issued_at, s.signer
FROM {sessions} AS s LEFT JOIN {api_keys} AS k ON k.id = s.key_id
WHERE s.hash = :hash AND s.expires_at > :now AND CASE
  WHEN s.key_id IS NOT NULL THEN k.id IS NOT NULL AND k.revoked_at IS NULL
  ELSE s.signer <> '' AND s.signer = :signer AND NOT EXISTS (
    SELECT 1 FROM {barred} AS b WHERE b.what IN (s.credential, 'name:' || s.name, 'all')
      AND (b.what = s.credential OR b.since >= s.issued_at))
  END

-- name: delete_session
DELETE FROM {sessions} WHERE hash = :hash

-- name: delete_old_sessions
DELETE FROM {sessions} WHERE expires_at <= :now

-- name: delete_sessions_of
-- All sessions, those of one name, or those of one credential.
DELETE FROM {sessions} WHERE :what = 'all' OR credential = :what OR 'name:' || name = :what
