-- Jobs that run when another completes.

-- name: insert_dependencies
-- From now on: what the other has completed before does not count.
INSERT INTO {dependencies} (job_id, after_id, seen)
SELECT u.job_id, j.id, j.completed FROM {rows: job_id uuid, after_id uuid} CROSS JOIN {jobs} AS j
WHERE {found_by: j.id u.after_id}

-- name: delete_dependencies_of
DELETE FROM {dependencies} WHERE job_id {in: ids uuid}

-- name: dependencies_of
-- What each of these jobs comes after.
SELECT job_id, after_id FROM {dependencies} WHERE job_id {in: ids uuid}

-- name: dependencies_there
SELECT EXISTS (SELECT 1 FROM {dependencies})

-- name: to_follow
-- Jobs whose other has completed since they followed it last.
SELECT d.job_id FROM {dependencies} AS d JOIN {jobs} AS j ON j.id = d.after_id
WHERE j.completed > d.seen ORDER BY d.job_id LIMIT :limit

-- name: followed
-- One completion has been dealt with; none if somebody else has done so.
UPDATE {dependencies} SET seen = seen + 1
WHERE job_id = :id AND seen < (SELECT j.completed FROM {jobs} AS j WHERE j.id = {dependencies}.after_id)
