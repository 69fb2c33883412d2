-- Since when, or from when on, a host may be asked by a crawl again: crawls of all workers take turns.

CREATE TABLE {crawl_hosts} (
    host {text} PRIMARY KEY,
    free_at {instant} NOT NULL
) {keyed};
