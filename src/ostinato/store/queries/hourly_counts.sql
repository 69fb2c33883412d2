-- Executions by the hour in which they were queued.

-- name: kept_hours
-- Hours with final counts.
SELECT hour, completed, failed, timed_out, cancelled, lost FROM {hours} WHERE hour >= :since ORDER BY hour

-- name: count_by_hour
-- The newest executions queued between two ids, counted by hour (a number) and outcome.
SELECT t.queued_at / 3600000000, t.outcome, count(*) FROM (
    SELECT e.queued_at, e.outcome FROM {executions} AS e
    WHERE e.id >= CAST(:from_id AS {uuid}) AND e.id < CAST(:to_id AS {uuid}) AND e.step = ''
    ORDER BY e.id DESC LIMIT :most) AS t
GROUP BY t.queued_at / 3600000000, t.outcome

-- name: oldest_live
-- The oldest queued or running execution among those queued from an id on.
SELECT id FROM {live} WHERE id >= CAST(:from_id AS {uuid}) ORDER BY id LIMIT 1

-- name: keep_hours
INSERT INTO {hours} (hour, completed, failed, timed_out, cancelled, lost)
SELECT u.hour, u.completed, u.failed, u.timed_out, u.cancelled, u.lost
FROM {rows: hour instant, completed bigint, failed bigint, timed_out bigint, cancelled bigint, lost bigint}
WHERE true ON CONFLICT (hour) DO NOTHING

-- name: forget_hours
DELETE FROM {hours} WHERE hour < :before
