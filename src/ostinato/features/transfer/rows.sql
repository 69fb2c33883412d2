-- Imports from other systems.

-- name: note_import
INSERT INTO {imports} (name, kind, source, jobs, at, by) VALUES (:name, :kind, :source, :jobs, :now, :by)
ON CONFLICT (name) DO UPDATE SET jobs = {imports}.jobs + excluded.jobs

-- name: insert_imported
INSERT INTO {imported} (job_id, of_import, ref)
SELECT u.job_id, u.of_import, u.ref
FROM {rows: job_id uuid, of_import text, ref text}
WHERE true

-- name: list_imports
-- The newest first.
SELECT name, kind, source, jobs, at, by, undone_at FROM {imports} ORDER BY at DESC, name DESC LIMIT :limit

-- name: get_import
SELECT name, kind, source, jobs, at, by, undone_at FROM {imports} WHERE name = :name

-- name: imported_jobs
-- The next jobs of an import, each with its version.
SELECT i.job_id, j.version FROM {imported} AS i JOIN {jobs} AS j ON j.id = i.job_id
WHERE i.of_import = :name AND i.job_id > :after AND j.deleted_at IS NULL
ORDER BY i.job_id LIMIT :limit

-- name: count_imported
SELECT count(*) FROM {imported} AS i JOIN {jobs} AS j ON j.id = i.job_id
WHERE i.of_import = :name AND j.deleted_at IS NULL

-- name: end_import
UPDATE {imports} SET undone_at = :now WHERE name = :name
