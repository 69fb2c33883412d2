-- Hooks, and the notices to be sent to hooks (outbox).

CREATE TABLE {hooks} (
    id {uuid} PRIMARY KEY,
    url {text} NOT NULL,
    kinds {json} NOT NULL,
    job_id {uuid},                   -- null: all jobs
    secret {text} NOT NULL,          -- a reference to the secret, never the secret; empty: none
    late_after {bigint} NOT NULL,    -- microseconds
    thresholds {json} NOT NULL,
    description {text} NOT NULL,
    created_at {instant} NOT NULL,
    created_by {text} NOT NULL
) {keyed};

-- A notice is written in the transaction that it reports. `due_at` is when it is to be sent; its sender moves that
-- ahead first, so that no other sends it. Null: delivered, or given up.
CREATE TABLE {outbox} (
    id {uuid} PRIMARY KEY,
    hook_id {uuid} NOT NULL,
    topic {text} NOT NULL,           -- a hook gets each topic once
    kind {text} NOT NULL,
    job_id {uuid},
    body {json} NOT NULL,
    created_at {instant} NOT NULL,
    due_at {instant},
    attempts {bigint} NOT NULL CHECK (attempts >= 0),
    delivered_at {instant},
    given_up_at {instant},
    answer {bigint},                 -- the HTTP status of the last attempt, if there was an answer
    error {text} NOT NULL,
    CHECK ((due_at IS NULL) = (delivered_at IS NOT NULL OR given_up_at IS NOT NULL))
) {keyed};

CREATE UNIQUE INDEX {prefix}outbox_topic ON {outbox} (hook_id, topic);
CREATE INDEX {prefix}outbox_due ON {outbox} (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX {prefix}outbox_hook ON {outbox} (hook_id, id);
