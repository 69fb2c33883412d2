-- Pages found by crawls, with an index of their words (pages), and the URLs of crawls under way (crawl_urls).

CREATE TABLE {pages} (
    id {bigint} PRIMARY KEY,         -- 63 bits of a hash over job and URL: the same page is the same row
    job_id {uuid} NOT NULL,
    url {text} NOT NULL,             -- canonical
    host {text} NOT NULL,
    status {bigint} NOT NULL,        -- of the last answer; 0: there was none
    error {text} NOT NULL,           -- why the last visit failed
    content_type {text} NOT NULL,
    title {text} NOT NULL,
    description {text} NOT NULL,
    text {text} NOT NULL,
    language {text} NOT NULL,
    links {json} NOT NULL,
    columns {json} NOT NULL,         -- extracted by the rules of the job
    hash {text} NOT NULL,            -- of the stored content; empty: none
    rules {text} NOT NULL,           -- a hash of the extraction rules: with other rules the page is fetched again
    etag {text} NOT NULL,
    last_modified {text} NOT NULL,
    size {bigint} NOT NULL,          -- bytes of the body
    depth {bigint} NOT NULL,
    first_seen_at {instant} NOT NULL,
    fetched_at {instant} NOT NULL,
    changed_at {instant} NOT NULL
) {strict};

CREATE INDEX {prefix}pages_of_job ON {pages} (job_id, id);
CREATE INDEX {prefix}pages_fetched ON {pages} (fetched_at, id);

CREATE TABLE {crawl_urls} (
    job_id {uuid} NOT NULL,
    number {bigint} NOT NULL,        -- of the occurrence
    page_id {bigint} NOT NULL,       -- the id of its page, existing or not
    url {text} NOT NULL,
    kind {text} NOT NULL CHECK (kind IN ('page', 'sitemap')),
    depth {bigint} NOT NULL,
    hops {bigint} NOT NULL,          -- redirects that led here
    place {bigint} NOT NULL,         -- the order in which they were found
    done_at {instant},
    PRIMARY KEY (job_id, number, page_id)
) {keyed};

CREATE INDEX {prefix}crawl_urls_waiting ON {crawl_urls} (job_id, number, depth, place) WHERE done_at IS NULL;

-- The next time a crawl may send a request to a host: crawls of all workers take turns.

CREATE TABLE {crawl_hosts} (
    host {text} PRIMARY KEY,
    free_at {instant} NOT NULL
) {keyed};

-- [postgres]

ALTER TABLE {pages} ADD COLUMN words tsvector GENERATED ALWAYS AS (
    setweight(to_tsvector('simple', title), 'A') || setweight(to_tsvector('simple', description), 'B')
    || to_tsvector('simple', text)) STORED;
CREATE INDEX {prefix}pages_words ON {pages} USING gin (words);

-- [sqlite]

CREATE VIRTUAL TABLE {prefix}page_words USING fts5(
    title, description, text, content='ostinato_pages', content_rowid='id', tokenize='unicode61 remove_diacritics 0');
CREATE TRIGGER {prefix}pages_in AFTER INSERT ON {pages} BEGIN INSERT INTO {prefix}page_words (rowid, title, description, text) VALUES (new.id, new.title, new.description, new.text); END;
CREATE TRIGGER {prefix}pages_out AFTER DELETE ON {pages} BEGIN INSERT INTO {prefix}page_words ({prefix}page_words, rowid, title, description, text) VALUES ('delete', old.id, old.title, old.description, old.text); END;
CREATE TRIGGER {prefix}pages_changed AFTER UPDATE ON {pages} WHEN old.title <> new.title OR old.description <> new.description OR old.text <> new.text BEGIN INSERT INTO {prefix}page_words ({prefix}page_words, rowid, title, description, text) VALUES ('delete', old.id, old.title, old.description, old.text); INSERT INTO {prefix}page_words (rowid, title, description, text) VALUES (new.id, new.title, new.description, new.text); END;
