-- Jobs that run when another completes.

-- name: insert_dependencies
-- From now on: earlier completions of the other job do not count.
INSERT INTO {dependencies} (job_id, after_id, seen)
SELECT u.job_id, j.id, j.completed FROM {rows: job_id uuid, after_id uuid} CROSS JOIN {jobs} AS j
WHERE {found_by: j.id u.after_id}

-- name: delete_dependencies_of
DELETE FROM {dependencies} WHERE job_id {in: ids uuid}

-- name: dependencies_of
-- The job that each of these jobs follows.
SELECT job_id, after_id FROM {dependencies} WHERE job_id {in: ids uuid}

-- name: dependencies_there
SELECT EXISTS (SELECT 1 FROM {dependencies})

-- name: to_follow
-- Jobs whose other job has completed since they last followed it.
SELECT d.job_id FROM {dependencies} AS d JOIN {jobs} AS j ON j.id = d.after_id
WHERE j.completed > d.seen ORDER BY d.job_id LIMIT :limit

-- name: followed
-- One completion is handled; no row if another process has handled it.
UPDATE {dependencies} SET seen = seen + 1
WHERE job_id = :id AND seen < (SELECT j.completed FROM {jobs} AS j WHERE j.id = {dependencies}.after_id)
