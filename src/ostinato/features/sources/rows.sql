-- The tables of users: their columns and unique indexes. Statements that write to them are built in
-- features/sources/table_statements.py, which quotes their names.

-- name: save_page
-- The checkpoint of a stored page, if its run still holds its execution and no cancel is requested.
UPDATE {live} SET checkpoint = :checkpoint WHERE id = :id AND fence = :fence AND cancel_asked_at IS NULL

-- name: may_write
-- The same check for a page that is stored in another database.
SELECT id FROM {live} WHERE id = :id AND fence = :fence AND cancel_asked_at IS NULL

-- name: usual_schema [postgres]
-- The schema of a table that is named without one.
SELECT current_schema()::text

-- name: usual_schema [sqlite]
SELECT ''

-- name: columns_of [postgres]
-- The columns of a table: name, type, kind of type, and whether it has a default value.
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod)::text, t.typcategory::text,
    CASE WHEN a.atthasdef OR a.attidentity <> '' THEN 1 ELSE 0 END::bigint
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE n.nspname = :schema AND c.relname = :name AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum

-- name: columns_of [sqlite]
SELECT c.name, c.type, '', CASE WHEN c.dflt_value IS NOT NULL OR c.pk > 0 THEN 1 ELSE 0 END
FROM sqlite_schema s CROSS JOIN pragma_table_xinfo(s.name) c
WHERE s.type = 'table' AND lower(s.name) = lower(:name) AND :schema = ''
ORDER BY c.cid

-- name: unique_of [postgres]
-- The columns of the unique indexes of a table, without those that have a condition: index, column.
SELECT i.indexrelid::text, a.attname::text
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
WHERE n.nspname = :schema AND c.relname = :name AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
  AND i.indexprs IS NULL
ORDER BY 1, 2

-- name: unique_of [sqlite]
SELECT i.name, c.name
FROM sqlite_schema s CROSS JOIN pragma_index_list(s.name) i CROSS JOIN pragma_index_info(i.name) c
WHERE s.type = 'table' AND lower(s.name) = lower(:name) AND :schema = '' AND i."unique" = 1 AND i.partial = 0
UNION ALL
SELECT '', c.name
FROM sqlite_schema s CROSS JOIN pragma_table_info(s.name) c
WHERE s.type = 'table' AND lower(s.name) = lower(:name) AND :schema = '' AND c.pk > 0

-- name: save_source_state
-- The state of a source, if its run still holds its execution.
INSERT INTO {source_states} (job_id, part, cursor, saved_at)
SELECT l.job_id, :part, :cursor, :now FROM {live} l
WHERE l.id = :id AND l.fence = :fence AND l.cancel_asked_at IS NULL
ON CONFLICT (job_id, part) DO UPDATE SET cursor = :cursor, saved_at = :now

-- name: get_source_state
SELECT cursor, saved_at FROM {source_states} WHERE job_id = :job AND part = :part

-- name: list_source_states
-- The states of a source, by part.
SELECT part, cursor, saved_at FROM {source_states} WHERE job_id = :job AND part > :after_part ORDER BY part LIMIT :limit

-- name: set_source_state
-- The state that a person sets, unless a run of the job is in progress.
INSERT INTO {source_states} (job_id, part, cursor, saved_at)
SELECT j.id, :part, :cursor, :now FROM {jobs} j
WHERE j.id = :job AND NOT EXISTS (SELECT 1 FROM {live} l WHERE l.job_id = :job AND l.worker_id IS NOT NULL)
ON CONFLICT (job_id, part) DO UPDATE SET cursor = :cursor, saved_at = :now

-- name: source_is_running
SELECT 1 FROM {live} WHERE job_id = :job AND worker_id IS NOT NULL LIMIT 1

-- name: reset_source_state
DELETE FROM {source_states} WHERE job_id = :job AND part = :part

-- name: reset_source_states
DELETE FROM {source_states} WHERE job_id = :job
