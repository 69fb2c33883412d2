-- What runs leaves the queue's index on SQLite: in a burst a claim walked over all that had been claimed before it and was
-- not settled yet, thousands of rows, each looked up to see that it runs. Taking it out with the claim costs what taking
-- it out with the settle did. (PostgreSQL keeps it: there a claim that changes no index is far cheaper.)

-- [sqlite]

DROP INDEX ostinato_live_queue;

CREATE INDEX ostinato_live_queue ON {live} (queue, priority, run_at) WHERE waits_for IS NULL AND worker_id IS NULL;
