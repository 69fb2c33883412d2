-- Answers to requests that may be repeated.

-- name: begin_answer
-- Take a key, unless it is taken.
INSERT INTO {answers} (caller, key, fingerprint, began_at, status, headers, body)
VALUES (:caller, :key, :fingerprint, :now, NULL, '{}', '')
ON CONFLICT (caller, key) DO NOTHING

-- name: take_over_answer
-- Take over a key whose first request never ended, or whose answer has expired.
UPDATE {answers} SET fingerprint = :fingerprint, began_at = :now, status = NULL, headers = '{}', body = ''
WHERE caller = :caller AND key = :key
  AND (began_at < :forgotten OR (status IS NULL AND began_at < :stale AND fingerprint = :fingerprint))

-- name: find_answer
SELECT fingerprint, status, headers, body FROM {answers} WHERE caller = :caller AND key = :key

-- name: finish_answer
UPDATE {answers} SET status = :code, headers = :headers, body = :body
WHERE caller = :caller AND key = :key AND fingerprint = :fingerprint AND status IS NULL

-- name: drop_answer
DELETE FROM {answers} WHERE caller = :caller AND key = :key AND fingerprint = :fingerprint AND status IS NULL

-- name: delete_old_answers
-- A few at a time: each new key deletes some.
DELETE FROM {answers} WHERE (caller, key) IN (
    SELECT caller, key FROM {answers} WHERE began_at < :forgotten ORDER BY began_at LIMIT :limit)
