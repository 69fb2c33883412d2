-- Budgets of hosts, and what was taken from them (core/providers.py).

CREATE TABLE {providers} (
    domain {text} PRIMARY KEY,
    most {bigint} NOT NULL CHECK (most >= 1),
    period {bigint} NOT NULL CHECK (period > 0),     -- microseconds
    key {json},                                      -- where a secret is, never the secret
    saved_at {instant} NOT NULL,
    saved_by {text} NOT NULL
) {keyed};

CREATE TABLE {passages} (
    id {uuid} PRIMARY KEY,
    domain {text} NOT NULL,
    count {bigint} NOT NULL CHECK (count >= 1),
    taken_at {instant} NOT NULL,
    until {instant} NOT NULL,                        -- after this it does not count any more
    answered_at {instant}                            -- all of it
) {keyed};

CREATE INDEX {prefix}passages_until ON {passages} (domain, until);

-- Which live rows wait because a budget was spent: while they wait until just that time.
CREATE TABLE {deferrals} (
    execution_id {uuid} PRIMARY KEY,
    domain {text} NOT NULL,
    until {instant} NOT NULL
) {keyed};

CREATE INDEX {prefix}deferrals_domain ON {deferrals} (domain);
