-- Credentials that were ended, sessions that end with their credential, declared jobs that somebody deleted,
-- and indexes for the auditor.

ALTER TABLE {sessions} ADD COLUMN credential {text} NOT NULL DEFAULT '';   -- key:UUID, or token:SHA256[:32]
ALTER TABLE {sessions} ADD COLUMN signer {text} NOT NULL DEFAULT '';       -- fingerprint of the key that verified the token
ALTER TABLE {sessions} ADD COLUMN issued_at {instant} NOT NULL DEFAULT 0;  -- of the token: judged by `barred` as the token is

CREATE TABLE {barred} (
    what {text} PRIMARY KEY,         -- token:…, name:SUB, or all
    since {instant} NOT NULL,        -- tokens issued at or before this instant are refused
    until {instant},                 -- after this nothing can match it any more: the sweeper removes the row
    by {text} NOT NULL
) {keyed};

CREATE TABLE {declined} (
    app {text} NOT NULL,
    key {text} NOT NULL,
    declared {text} NOT NULL,        -- fingerprint of the declaration whose job was deleted
    at {instant} NOT NULL,
    by {text} NOT NULL,
    PRIMARY KEY (app, key)
) {keyed};

CREATE INDEX {prefix}events_clock ON {events} (id) WHERE kind = 'clock.jumped';
CREATE INDEX {prefix}events_flaw ON {events} (id) WHERE kind = 'audit.flaw';

-- Since when events are complete; retention raises it.
INSERT INTO {meta} (key, value) SELECT 'events_since', CAST(min(at) AS text) FROM {events} HAVING count(*) > 0;
