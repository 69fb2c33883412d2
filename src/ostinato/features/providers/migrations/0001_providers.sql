-- Budgets of hosts, and the requests taken from them (rules.py).

CREATE TABLE {providers} (
    domain {text} PRIMARY KEY,
    most {bigint} NOT NULL CHECK (most >= 1),
    period {bigint} NOT NULL CHECK (period > 0),     -- microseconds
    key {json},                                      -- a reference to the secret, never the secret
    saved_at {instant} NOT NULL,
    saved_by {text} NOT NULL
) {keyed};

CREATE TABLE {passages} (
    id {uuid} PRIMARY KEY,
    domain {text} NOT NULL,
    count {bigint} NOT NULL CHECK (count >= 1),
    taken_at {instant} NOT NULL,
    until {instant} NOT NULL,                        -- after this it no longer counts
    answered_at {instant}                            -- when all were answered
) {keyed};

CREATE INDEX {prefix}passages_until ON {passages} (domain, until);
