-- name: delete_imported
DELETE FROM {imported} WHERE job_id IN (SELECT i.job_id FROM {imported} AS i WHERE i.job_id {in: ids uuid} LIMIT :limit)
