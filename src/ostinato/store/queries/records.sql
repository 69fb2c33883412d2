-- The tables of the users: what is there. What is written to them is made in store/records.py, where names are quoted.

-- name: save_page
-- A page was stored: where its run goes on from, if it still holds its execution and nobody has asked it to stop.
UPDATE {live} SET checkpoint = :checkpoint WHERE id = :id AND fence = :fence AND cancel_asked_at IS NULL

-- name: may_write
-- The same question, where the page is stored in another database.
SELECT id FROM {live} WHERE id = :id AND fence = :fence AND cancel_asked_at IS NULL

-- name: usual_schema [postgres]
-- Where a table goes that names no schema.
SELECT current_schema()::text

-- name: usual_schema [sqlite]
SELECT ''

-- name: columns_of [postgres]
-- The columns of a table: name, type, what kind of type it is, and whether it has a value by default.
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
