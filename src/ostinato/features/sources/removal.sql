-- States of removed sources.

-- name: delete_source_states_of [postgres]
DELETE FROM {source_states} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {source_states} WHERE job_id {in: ids uuid} LIMIT :limit))

-- name: delete_source_states_of [sqlite]
DELETE FROM {source_states} WHERE (job_id, part) IN (
    SELECT job_id, part FROM {source_states} WHERE job_id {in: ids uuid} LIMIT :limit)
