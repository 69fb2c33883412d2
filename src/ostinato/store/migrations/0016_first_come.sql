-- What may start stands in the queue by priority, then by its time, then by when it was queued (ids rise with time).
-- PostgreSQL keeps equal entries of an index by where their rows lie, so one that was queued later could go first: of
-- twenty sources due at one instant some ran twice before the last had run once. SQLite's index ends with the id anyway.

-- [postgres]

DROP INDEX {schema}.live_queue;

CREATE INDEX live_queue ON {live} (queue, priority, run_at, id) WHERE waits_for IS NULL;
