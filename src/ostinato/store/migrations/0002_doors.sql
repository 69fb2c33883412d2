-- The doors: who may come in (api_keys), who wants to be told (hooks), and what is to be told (outbox).

CREATE TABLE {api_keys} (
    id {uuid} PRIMARY KEY,
    prefix {text} NOT NULL,
    hash {text} NOT NULL,            -- SHA-256 of the whole key: no slow hash, since the key is 256 random bits
    name {text} NOT NULL,
    role {text} NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    created_at {instant} NOT NULL,
    created_by {text} NOT NULL,
    expires_at {instant},
    last_used_at {instant},          -- to the minute
    revoked_at {instant},
    revoked_by {text} NOT NULL
) {keyed};

CREATE UNIQUE INDEX {prefix}api_keys_prefix ON {api_keys} (prefix);

CREATE TABLE {hooks} (
    id {uuid} PRIMARY KEY,
    url {text} NOT NULL,
    kinds {json} NOT NULL,
    job_id {uuid},                   -- null: all jobs
    secret {text} NOT NULL,          -- where it is, never what it is; empty: none
    late_after {bigint} NOT NULL,    -- microseconds
    thresholds {json} NOT NULL,
    description {text} NOT NULL,
    created_at {instant} NOT NULL,
    created_by {text} NOT NULL
) {keyed};

-- Written with what it tells about, in the same transaction. `due_at` is when it is to be sent; whoever sends it
-- moves that ahead first, so that no other does. Null: delivered, or given up.
CREATE TABLE {outbox} (
    id {uuid} PRIMARY KEY,
    hook_id {uuid} NOT NULL,
    topic {text} NOT NULL,           -- a hook is told of each once
    kind {text} NOT NULL,
    job_id {uuid},
    body {json} NOT NULL,
    created_at {instant} NOT NULL,
    due_at {instant},
    attempts {bigint} NOT NULL CHECK (attempts >= 0),
    delivered_at {instant},
    given_up_at {instant},
    answer {bigint},                 -- the HTTP status of the last attempt, if it came to that
    error {text} NOT NULL,
    CHECK ((due_at IS NULL) = (delivered_at IS NOT NULL OR given_up_at IS NOT NULL))
) {keyed};

CREATE UNIQUE INDEX {prefix}outbox_topic ON {outbox} (hook_id, topic);
CREATE INDEX {prefix}outbox_due ON {outbox} (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX {prefix}outbox_hook ON {outbox} (hook_id, id);
