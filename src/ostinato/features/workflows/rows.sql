-- Workflows and their versions.

-- name: next_workflow_id
SELECT coalesce(max(id), 0) + 1 FROM {workflows}

-- name: insert_workflow
INSERT INTO {workflows} (id, name, held_name, description, version, inactive_at, declared, created_at, updated_at, deleted_at)
VALUES (:number, :name, :name, :description, 1, CAST(:inactive_at AS {instant}), :declared, :now, :now, NULL)

-- name: insert_workflow_version
INSERT INTO {workflow_versions} (workflow_id, version, nodes, created_at, by)
VALUES (:number, :workflow_version, :nodes, :now, :by)

-- name: update_workflow
UPDATE {workflows} SET name = :name, held_name = :name, description = :description, version = :workflow_version,
    inactive_at = CAST(:inactive_at AS {instant}), declared = :declared, updated_at = :now
WHERE id = :number

-- name: delete_workflow
-- Its versions stay: a run in progress goes on with its own.
UPDATE {workflows} SET held_name = NULL, deleted_at = :now WHERE id = :number AND deleted_at IS NULL

-- name: workflow_by_id
SELECT w.id, w.name, w.description, w.version, v.nodes, w.inactive_at, w.declared, w.created_at, w.updated_at
FROM {workflows} AS w JOIN {workflow_versions} AS v ON v.workflow_id = w.id AND v.version = w.version
WHERE w.id = :number AND w.deleted_at IS NULL

-- name: workflow_by_name
SELECT w.id, w.name, w.description, w.version, v.nodes, w.inactive_at, w.declared, w.created_at, w.updated_at
FROM {workflows} AS w JOIN {workflow_versions} AS v ON v.workflow_id = w.id AND v.version = w.version
WHERE w.held_name = :name

-- name: lock_workflow
-- A workflow that is about to be changed.
SELECT version FROM {workflows} WHERE id = :number AND deleted_at IS NULL {for_update}

-- name: list_workflows
-- All that are not deleted, in the order in which they were made.
SELECT w.id, w.name, w.description, w.version, v.nodes, w.inactive_at, w.declared, w.created_at, w.updated_at
FROM {workflows} AS w JOIN {workflow_versions} AS v ON v.workflow_id = w.id AND v.version = w.version
WHERE w.deleted_at IS NULL AND w.id > :after_number ORDER BY w.id LIMIT :limit

-- name: workflow_version
-- The nodes that a run began with, also of a deleted workflow.
SELECT v.nodes FROM {workflow_versions} AS v WHERE v.workflow_id = :number AND v.version = :workflow_version

-- name: steps_of
-- The ended steps of a run, the first first.
SELECT {columns executions}
FROM {executions} WHERE job_id = :job AND number = :number AND step <> '' ORDER BY id
