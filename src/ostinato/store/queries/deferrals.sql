-- Live rows that wait for a budget of outgoing requests.

-- name: waiting_for_budgets
-- The number of live rows that wait for each budget.
SELECT d.budget, count(*) FROM {deferrals} AS d JOIN {live} AS l ON l.id = d.execution_id
WHERE l.waits_for = 'time' AND l.run_at = d.until GROUP BY d.budget

-- name: save_deferrals
INSERT INTO {deferrals} (execution_id, budget, until)
SELECT u.execution_id, u.budget, u.until FROM {rows: execution_id uuid, budget text, until instant} WHERE true
ON CONFLICT (execution_id) DO UPDATE SET budget = excluded.budget, until = excluded.until

-- name: deferral_of
-- The budget for which a live row waits.
SELECT budget FROM {deferrals} WHERE execution_id = :id AND until = :until

-- name: try_deferred
-- A budget was changed: rows that wait for it may try soon.
UPDATE {live} SET run_at = :until WHERE waits_for = 'time' AND run_at > :until AND id IN (
    SELECT d.execution_id FROM {deferrals} AS d WHERE d.budget = :budget AND d.until = {live}.run_at)

-- name: forget_deferrals
DELETE FROM {deferrals} AS d WHERE NOT EXISTS (SELECT 1 FROM {live} AS l WHERE {found_by: l.id d.execution_id})
