-- Pages and URLs of removed jobs.

-- name: delete_pages_of [postgres]
DELETE FROM {pages} WHERE id = ANY (ARRAY(SELECT id FROM {pages} WHERE job_id {in: ids uuid} LIMIT :limit))

-- name: delete_pages_of [sqlite]
DELETE FROM {pages} WHERE id IN (SELECT id FROM {pages} WHERE job_id {in: ids uuid} LIMIT :limit)

-- name: delete_crawl_urls_of [postgres]
DELETE FROM {crawl_urls} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {crawl_urls} WHERE job_id {in: ids uuid} LIMIT :limit))

-- name: delete_crawl_urls_of [sqlite]
DELETE FROM {crawl_urls} WHERE (job_id, number, page_id) IN (
    SELECT job_id, number, page_id FROM {crawl_urls} WHERE job_id {in: ids uuid} LIMIT :limit)
