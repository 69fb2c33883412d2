-- Budgets of hosts (rules.py).

-- name: save_provider
INSERT INTO {providers} (domain, most, period, key, saved_at, saved_by)
VALUES (:domain, :most, :period, :key, :now, :by)
ON CONFLICT (domain) DO UPDATE SET most = excluded.most, period = excluded.period, key = excluded.key,
    saved_at = excluded.saved_at, saved_by = excluded.saved_by

-- name: delete_provider
DELETE FROM {providers} WHERE domain = :domain

-- name: list_providers
SELECT domain, most, period, key, saved_at, saved_by FROM {providers} ORDER BY domain

-- name: find_provider
SELECT domain, most, period, key, saved_at, saved_by FROM {providers} WHERE domain = :domain

-- name: lock_provider
-- Only one transaction at a time takes from a budget.
SELECT most, period FROM {providers} WHERE domain = :domain {for_update}

-- name: forget_passages
-- Requests that no longer count.
DELETE FROM {passages} WHERE domain = :domain AND until <= :now

-- name: shorten_passages
-- After a clock was set back: no request counts for longer than if it were taken now.
UPDATE {passages} SET until = :latest WHERE domain = :domain AND until > :latest

-- name: count_passages
SELECT CAST(coalesce(sum(count), 0) AS {bigint}) FROM {passages} WHERE domain = :domain

-- name: list_passages
-- The first to end first.
SELECT count, taken_at, until, answered_at FROM {passages} WHERE domain = :domain ORDER BY until LIMIT :limit

-- name: insert_passage
INSERT INTO {passages} (id, domain, count, taken_at, until, answered_at)
VALUES (:id, :domain, :count, :now, :until, NULL)

-- name: answer_passages
-- All of these have been answered, or never will be: from then on they only age.
UPDATE {passages} AS p SET count = u.count, until = u.until, answered_at = u.answered_at
FROM {rows: id uuid, count bigint, until instant, answered_at instant} WHERE {found_by: p.id u.id}

-- name: return_passages
-- None of these permits was used.
DELETE FROM {passages} WHERE id {in: ids uuid}

-- name: used_of_budgets
-- The part of each budget that is in use.
SELECT domain, CAST(sum(count) AS {bigint}) FROM {passages} WHERE until > :now GROUP BY domain

-- name: forget_old_passages
-- Requests of domains that are no longer used.
DELETE FROM {passages} WHERE until <= :now
