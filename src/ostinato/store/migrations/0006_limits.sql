-- Limits across all workers: who shares one, and what a rate has let through lately.

ALTER TABLE {live} ADD COLUMN limit_key {text};

CREATE INDEX {prefix}live_limited ON {live} (limit_key, priority, run_at) WHERE waits_for = 'limit';
CREATE INDEX {prefix}live_limit ON {live} (limit_key, waits_for) WHERE limit_key IS NOT NULL;

CREATE TABLE {limits} (
    key {text} PRIMARY KEY,
    recent {json} NOT NULL,          -- instants, in microseconds
    until {instant} NOT NULL         -- after this, and when nothing of the key is live, it can be forgotten
) {keyed};
