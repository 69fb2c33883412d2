-- Hooks and their notices.

-- name: insert_hook
INSERT INTO {hooks} (id, url, kinds, job_id, secret, late_after, thresholds, description, created_at, created_by)
VALUES (:id, :url, :kinds, :job, :secret, :late_after, :thresholds, :description, :now, :by)

-- name: list_hooks
SELECT id, url, kinds, job_id, secret, late_after, thresholds, description, created_at, created_by
FROM {hooks} ORDER BY id

-- name: delete_hook
DELETE FROM {hooks} WHERE id = :id

-- name: delete_notices_of
DELETE FROM {outbox} WHERE hook_id = :id

-- name: insert_notices
-- A hook gets a notice per topic once, whichever process finds it.
INSERT INTO {outbox} (id, hook_id, topic, kind, job_id, body, created_at, due_at, attempts, error)
SELECT u.id, u.hook_id, u.topic, u.kind, u.job_id, u.body, u.created_at, u.created_at, 0, ''
FROM {rows: id uuid, hook_id uuid, topic text, kind text, job_id uuid, body json, created_at instant}
WHERE true ON CONFLICT (hook_id, topic) DO NOTHING

-- name: topics_since
SELECT topic FROM {outbox} WHERE hook_id = :id AND topic {in: topics text} AND created_at > :since

-- name: next_notice
SELECT min(o.due_at) FROM {outbox} AS o WHERE o.due_at IS NOT NULL AND o.hook_id IN (SELECT h.id FROM {hooks} AS h)

-- name: claim_notices [postgres]
-- A notice is claimed until then; its claimer sends it.
UPDATE {outbox} SET due_at = :until, attempts = attempts + 1
WHERE id = ANY (ARRAY(
    SELECT o.id FROM {outbox} AS o WHERE o.due_at <= :now AND o.hook_id = :id ORDER BY o.due_at LIMIT :limit
    FOR UPDATE SKIP LOCKED))
RETURNING id, kind, body, attempts

-- name: claim_notices [sqlite]
UPDATE {outbox} SET due_at = :until, attempts = attempts + 1
WHERE id IN (SELECT o.id FROM {outbox} AS o WHERE o.due_at <= :now AND o.hook_id = :id ORDER BY o.due_at LIMIT :limit)
RETURNING id, kind, body, attempts

-- name: note_attempts
-- Results of attempts. A notice that was claimed again meanwhile belongs to the new claimer.
UPDATE {outbox} AS o SET due_at = u.due_at, delivered_at = u.delivered_at, given_up_at = u.given_up_at, answer = u.answer,
    error = u.error
FROM {rows: id uuid, attempts bigint, due_at instant, delivered_at instant, given_up_at instant, answer bigint, error text}
WHERE {found_by: o.id u.id} AND o.attempts = u.attempts AND o.due_at IS NOT NULL

-- name: postpone_notices
-- Notices not sent, since a budget was spent: later, and without counting an attempt.
UPDATE {outbox} AS o SET due_at = u.due_at, attempts = o.attempts - 1, error = u.error
FROM {rows: id uuid, attempts bigint, due_at instant, error text}
WHERE {found_by: o.id u.id} AND o.attempts = u.attempts AND o.due_at IS NOT NULL

-- name: list_deliveries
-- The notices of a hook, sent or waiting, the newest first. `state` is pending, delivered, given_up, or empty for all.
SELECT id, kind, job_id, body, created_at, due_at, attempts, delivered_at, given_up_at, answer, error
FROM {outbox} WHERE hook_id = :id AND (CAST(:before AS {uuid}) IS NULL OR id < CAST(:before AS {uuid}))
  AND (:state = '' OR :state = CASE WHEN due_at IS NOT NULL THEN 'pending'
                                    WHEN delivered_at IS NOT NULL THEN 'delivered' ELSE 'given_up' END)
ORDER BY id DESC LIMIT :limit

-- name: count_deliveries
SELECT hook_id, sum(CASE WHEN due_at IS NOT NULL THEN 1 ELSE 0 END), sum(CASE WHEN delivered_at IS NOT NULL THEN 1 ELSE 0 END),
    sum(CASE WHEN given_up_at IS NOT NULL THEN 1 ELSE 0 END)
FROM {outbox} GROUP BY hook_id

-- name: delete_old_notices [postgres]
DELETE FROM {outbox} WHERE id = ANY (ARRAY(
    SELECT id FROM {outbox} WHERE (due_at IS NULL AND created_at < :before)
       OR hook_id NOT IN (SELECT h.id FROM {hooks} AS h) LIMIT :limit))

-- name: delete_old_notices [sqlite]
DELETE FROM {outbox} WHERE id IN (
    SELECT id FROM {outbox} WHERE (due_at IS NULL AND created_at < :before)
       OR hook_id NOT IN (SELECT h.id FROM {hooks} AS h) LIMIT :limit)

-- name: results_before
-- The result of the execution before each of these; cancelled ones are left out.
SELECT u.id, (SELECT e.outcome FROM {executions} AS e
              WHERE e.job_id = u.job_id AND e.step = '' AND e.outcome <> 'cancelled'
                AND (e.number, e.attempt) < (u.number, u.attempt)
              ORDER BY e.number DESC, e.attempt DESC LIMIT 1)
FROM {rows: id uuid, job_id uuid, number bigint, attempt bigint}

-- name: late_live
-- Executions that should have started between two instants and have not, or started later than allowed.
SELECT {columns live}
FROM {live} WHERE run_at > :since AND run_at <= :until AND (waits_for IS NULL OR waits_for IN ('task', 'limit'))
  AND (started_at IS NULL OR started_at - run_at >= :late_after) AND (CAST(:job AS {uuid}) IS NULL OR job_id = CAST(:job AS {uuid}))
ORDER BY run_at LIMIT :limit

-- name: window_figures
-- Figures of jobs with enough executions made since an id: their ids are in the order of time.
SELECT job_id, sum(CASE WHEN outcome = 'completed' THEN 1 ELSE 0 END),
    sum(CASE WHEN outcome IN ('failed', 'timed_out', 'lost') THEN 1 ELSE 0 END),
    sum(CASE WHEN outcome = 'lost' THEN 1 ELSE 0 END),
    CAST(avg(CASE WHEN outcome = 'completed' THEN finished_at - started_at END) AS {double})
FROM {executions}
WHERE id >= :from_id AND step = '' AND (CAST(:job AS {uuid}) IS NULL OR job_id = CAST(:job AS {uuid}))
GROUP BY job_id HAVING count(*) >= :least LIMIT :limit

-- name: window_losses
SELECT count(*) FROM {executions}
WHERE id >= :from_id AND step = '' AND outcome = 'lost' AND (CAST(:job AS {uuid}) IS NULL OR job_id = CAST(:job AS {uuid}))

-- name: usual_durations
-- Durations of runs of jobs before an id was made.
SELECT job_id, CAST(avg(finished_at - started_at) AS {double}) FROM {executions}
WHERE job_id {in: ids uuid} AND id < :from_id AND outcome = 'completed' AND started_at IS NOT NULL GROUP BY job_id
