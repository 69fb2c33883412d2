-- Pages found by crawls, and the URLs of crawls under way.

-- name: save_pages
-- Pages that were fetched. The time of a change moves only with the content.
INSERT INTO {pages} (id, job_id, url, host, status, error, content_type, title, description, text, language, links, columns, hash, rules, etag, last_modified, size, depth, first_seen_at, fetched_at, changed_at)
SELECT u.id, u.job_id, u.url, u.host, u.status, u.error, u.content_type, u.title, u.description, u.text, u.language, u.links, u.columns, u.hash, u.rules, u.etag, u.last_modified, u.size, u.depth, u.at, u.at, u.at
FROM {rows: id bigint, job_id uuid, url text, host text, status bigint, error text, content_type text, title text, description text, text text, language text, links json, columns json, hash text, rules text, etag text, last_modified text, size bigint, depth bigint, at instant} WHERE true
ON CONFLICT (id) DO UPDATE SET status = excluded.status, error = excluded.error, content_type = excluded.content_type,
    title = excluded.title, description = excluded.description, text = excluded.text, language = excluded.language,
    links = excluded.links, columns = excluded.columns, rules = excluded.rules, etag = excluded.etag,
    last_modified = excluded.last_modified, size = excluded.size, depth = excluded.depth,
    fetched_at = excluded.fetched_at, hash = excluded.hash,
    changed_at = CASE WHEN {pages}.hash = excluded.hash THEN {pages}.changed_at ELSE excluded.changed_at END

-- name: touch_pages
-- Pages that were requested and have not changed, or did not answer: their stored content stays.
UPDATE {pages} AS p SET fetched_at = u.at, error = u.error,
    status = CASE WHEN u.error = '' THEN p.status ELSE u.status END
FROM {rows: id bigint, status bigint, error text, at instant}
WHERE {found_by: p.id u.id}

-- name: visited
UPDATE {crawl_urls} AS c SET done_at = u.at
FROM {rows: job_id uuid, number bigint, page_id bigint, at instant}
WHERE c.job_id = u.job_id AND c.number = u.number AND c.page_id = u.page_id AND c.done_at IS NULL

-- name: insert_crawl_urls
-- URLs that a crawl has found; each is visited once.
INSERT INTO {crawl_urls} (job_id, number, page_id, url, kind, depth, hops, place)
SELECT u.job_id, u.number, u.page_id, u.url, u.kind, u.depth, u.hops, u.place
FROM {rows: job_id uuid, number bigint, page_id bigint, url text, kind text, depth bigint, hops bigint, place bigint} WHERE true
ON CONFLICT (job_id, number, page_id) DO NOTHING

-- name: waiting_crawl_urls
-- The next URLs to visit, with the knowledge of earlier crawls.
SELECT c.url, c.kind, c.depth, c.hops, p.hash, p.rules, p.etag, p.last_modified, p.links
FROM {crawl_urls} AS c LEFT JOIN {pages} AS p ON p.id = c.page_id
WHERE c.job_id = :job AND c.number = :number AND c.done_at IS NULL
ORDER BY c.depth, c.place LIMIT :limit

-- name: count_crawl_urls
SELECT count(*), count(done_at) FROM {crawl_urls} WHERE job_id = :job AND number = :number

-- name: delete_crawl_urls [postgres]
-- Delete some URLs of an occurrence that is over.
DELETE FROM {crawl_urls} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {crawl_urls} WHERE job_id = :job AND number = :number LIMIT :limit))

-- name: delete_crawl_urls [sqlite]
DELETE FROM {crawl_urls} WHERE job_id = :job AND number = :number AND page_id IN (
    SELECT page_id FROM {crawl_urls} WHERE job_id = :job AND number = :number LIMIT :limit)

-- name: know_crawl_host
INSERT INTO {crawl_hosts} (host, free_at) VALUES (:host, :now) ON CONFLICT (host) DO NOTHING

-- name: lock_crawl_host
-- Only one transaction at a time takes a turn.
SELECT free_at FROM {crawl_hosts} WHERE host = :host {for_update}

-- name: take_turn
UPDATE {crawl_hosts} SET free_at = :free_at WHERE host = :host

-- name: forget_crawl_hosts
-- Hosts without requests for a while.
DELETE FROM {crawl_hosts} WHERE free_at < :before

-- name: left_crawls
-- Ended occurrences of a job that left URLs behind.
SELECT DISTINCT c.number FROM {crawl_urls} AS c WHERE c.job_id = :job AND c.number < :number
AND NOT EXISTS (SELECT 1 FROM {live} AS l WHERE l.job_id = c.job_id AND l.number = c.number)

-- name: holds
-- Whether a run still has its execution.
SELECT 1 FROM {live} WHERE id = :id AND fence = :fence

-- name: last_crawl
-- The newest completed execution of a job.
SELECT e.due_at, e.result FROM {executions} AS e
WHERE e.job_id = :job AND e.outcome = 'completed' AND e.step = '' ORDER BY e.number DESC, e.attempt DESC LIMIT 1

-- part: chosen_pages
p.job_id NOT IN (SELECT d.id FROM {jobs} AS d WHERE d.deleted_at IS NOT NULL)
  AND (CAST(:job AS {uuid}) IS NULL OR p.job_id = :job) AND (CAST(:host AS {json}) IS NULL OR p.host = :host)

-- name: newest_pages
-- Without their text, the last fetched first.
SELECT p.id, p.job_id, p.url, p.status, p.error, p.content_type, p.title, p.description, p.language, p.columns, p.hash,
    p.size, p.depth, p.first_seen_at, p.fetched_at, p.changed_at, ''
FROM {pages} AS p
WHERE {part chosen_pages} ORDER BY p.fetched_at DESC, p.id DESC LIMIT :limit OFFSET :offset

-- name: count_pages
SELECT count(*) FROM (SELECT 1 FROM {pages} AS p WHERE {part chosen_pages} LIMIT :most) AS t

-- name: search_pages [postgres]
-- Pages that have all these words, the best first, with a snippet.
SELECT p.id, p.job_id, p.url, p.status, p.error, p.content_type, p.title, p.description, p.language, p.columns, p.hash,
    p.size, p.depth, p.first_seen_at, p.fetched_at, p.changed_at,
    ts_headline('simple', p.text, websearch_to_tsquery('simple', CAST(:words AS {json})),
        'StartSel=' || chr(2) || ', StopSel=' || chr(3) || ', MaxWords=30, MinWords=12, MaxFragments=1')
FROM (
    SELECT p.*, ts_rank(p.words, q.q) AS rank FROM {pages} AS p
    CROSS JOIN websearch_to_tsquery('simple', CAST(:words AS {json})) AS q(q)
    WHERE p.words @@ q.q AND {part chosen_pages}
    ORDER BY rank DESC, p.id LIMIT :limit OFFSET :offset) AS p
ORDER BY p.rank DESC, p.id

-- name: search_pages [sqlite]
SELECT p.id, p.job_id, p.url, p.status, p.error, p.content_type, p.title, p.description, p.language, p.columns, p.hash,
    p.size, p.depth, p.first_seen_at, p.fetched_at, p.changed_at,
    snippet({prefix}page_words, 2, char(2), char(3), ' … ', 24)
FROM {prefix}page_words JOIN {pages} AS p ON p.id = {prefix}page_words.rowid
WHERE {prefix}page_words MATCH :words AND {part chosen_pages}
ORDER BY bm25({prefix}page_words, 8.0, 4.0, 1.0), p.id LIMIT :limit OFFSET :offset

-- name: count_found_pages [postgres]
SELECT count(*) FROM (SELECT 1 FROM {pages} AS p
    WHERE p.words @@ websearch_to_tsquery('simple', CAST(:words AS {json})) AND {part chosen_pages} LIMIT :most) AS t

-- name: count_found_pages [sqlite]
SELECT count(*) FROM (SELECT 1 FROM {prefix}page_words JOIN {pages} AS p ON p.id = {prefix}page_words.rowid
    WHERE {prefix}page_words MATCH :words AND {part chosen_pages} LIMIT :most) AS t

-- name: page_by_id
-- One page, complete.
SELECT p.id, p.job_id, p.url, p.status, p.error, p.content_type, p.title, p.description, p.language, p.columns, p.hash,
    p.size, p.depth, p.first_seen_at, p.fetched_at, p.changed_at, p.text, p.links, p.etag, p.last_modified
FROM {pages} AS p WHERE p.id = :page AND p.job_id NOT IN (SELECT d.id FROM {jobs} AS d WHERE d.deleted_at IS NOT NULL)
