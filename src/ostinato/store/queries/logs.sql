-- Logs of runs.

-- name: lock_log_sizes [postgres]
-- The size of these executions' logs. Concurrent writers of one log wait here for each other; for an execution that
-- does not exist (any more) nothing is stored.
WITH there AS (
    SELECT u.id FROM {rows: id uuid}
    WHERE EXISTS (SELECT 1 FROM {live} AS l WHERE {found_by: l.id u.id})
       OR EXISTS (SELECT 1 FROM {executions} AS e WHERE {found_by: e.id u.id})
    ORDER BY u.id)
INSERT INTO {log_sizes} AS s (execution_id, lines, bytes, cut) SELECT there.id, 0, 0, 0 FROM there
ON CONFLICT (execution_id) DO UPDATE SET lines = s.lines
RETURNING execution_id, lines, bytes, cut

-- name: lock_log_sizes [sqlite]
-- SQLite has one writer.
SELECT u.id, coalesce(s.lines, 0), coalesce(s.bytes, 0), coalesce(s.cut, 0)
FROM {rows: id uuid} LEFT JOIN {log_sizes} AS s ON s.execution_id = u.id
WHERE EXISTS (SELECT 1 FROM {live} AS l WHERE l.id = u.id)
   OR EXISTS (SELECT 1 FROM {executions} AS e WHERE e.id = u.id)

-- name: save_log_sizes
INSERT INTO {log_sizes} (execution_id, lines, bytes, cut)
SELECT u.execution_id, u.lines, u.bytes, u.cut
FROM {rows: execution_id uuid, lines bigint, bytes bigint, cut bigint} WHERE true
ON CONFLICT (execution_id) DO UPDATE SET lines = excluded.lines, bytes = excluded.bytes, cut = excluded.cut

-- name: insert_logs
INSERT INTO {logs} (execution_id, number, at, level, stream, line)
SELECT u.execution_id, u.number, u.at, u.level, u.stream, u.line
FROM {rows: execution_id uuid, number bigint, at instant, level bigint, stream text, line text} WHERE true

-- name: log_size
SELECT lines, bytes, cut FROM {log_sizes} WHERE execution_id = :id

-- name: log_lines
-- Lines of one execution after a number with at least this level, the first first.
SELECT number, at, level, stream, line FROM {logs}
WHERE execution_id = :id AND number > :after_number AND level >= :least
ORDER BY number LIMIT :limit

-- name: delete_logs
DELETE FROM {logs} WHERE execution_id {in: ids uuid}

-- name: delete_log_sizes
DELETE FROM {log_sizes} WHERE execution_id {in: ids uuid}

-- name: log_sizes_after
-- The next executions after an id that have a log, and whether they exist: a lost worker may have written late.
SELECT s.execution_id,
    CASE WHEN EXISTS (SELECT 1 FROM {live} AS l WHERE l.id = s.execution_id)
           OR EXISTS (SELECT 1 FROM {executions} AS e WHERE e.id = s.execution_id) THEN 1 ELSE 0 END
FROM (SELECT execution_id FROM {log_sizes} WHERE execution_id > :after ORDER BY execution_id LIMIT :limit) AS s
ORDER BY s.execution_id
