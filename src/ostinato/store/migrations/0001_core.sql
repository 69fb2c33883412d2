-- Future (jobs), present (live) and past (executions), and their records.
-- Instants are microseconds since 1970 (UTC), ids are time-ordered uuids, JSON is text that no statement reads.

CREATE TABLE {jobs} (
    id {uuid} PRIMARY KEY,
    app {text} NOT NULL,
    key {text},
    held_key {text},                 -- the key while the job has not ended: unique
    name {text} NOT NULL,
    description {text} NOT NULL,
    task {text} NOT NULL,
    args {json} NOT NULL,
    queue {text} NOT NULL,
    priority {bigint} NOT NULL CHECK (priority BETWEEN 1 AND 10),
    kind {text} NOT NULL CHECK (kind IN ('every', 'cron', 'once', 'manual')),
    schedule {json} NOT NULL,
    policies {json} NOT NULL,
    tags {json} NOT NULL,
    metadata {json} NOT NULL,
    owner {text} NOT NULL,
    declared {text},
    created_at {instant} NOT NULL,
    updated_at {instant} NOT NULL,
    anchor {instant} NOT NULL,
    version {bigint} NOT NULL CHECK (version >= 1),
    next_due_at {instant},
    computed_at {instant},
    last_due_at {instant},
    reset_at {instant},
    last_number {bigint} NOT NULL CHECK (last_number >= 0),
    last_execution_number {bigint} NOT NULL CHECK (last_execution_number >= last_number),
    repeats_done {bigint} NOT NULL CHECK (repeats_done >= 0),
    period_start {instant},
    period_failures {bigint} NOT NULL,
    completed {bigint} NOT NULL,
    failed {bigint} NOT NULL,
    timed_out {bigint} NOT NULL,
    cancelled {bigint} NOT NULL,
    lost {bigint} NOT NULL,
    skipped {bigint} NOT NULL,
    paused_at {instant},
    cancelled_at {instant},
    ended_at {instant},
    ended_as {text} CHECK (ended_as IN ('completed', 'failed')),
    deleted_at {instant},
    aside_until {instant},                 -- no rule could apply: tried again then; its due time stays
    pruned {json} NOT NULL DEFAULT '{}',   -- removed by retention: executions by outcome, and skipped due times
    restarted {json} NOT NULL DEFAULT '{}', -- its counters at its last restart: {"completed", "errors"}; empty: never
    CHECK (next_due_at IS NULL OR (paused_at IS NULL AND cancelled_at IS NULL AND ended_at IS NULL AND deleted_at IS NULL)),
    CHECK (ended_at IS NULL OR ended_as IS NOT NULL)
) {fillfactor 50} {keyed};

CREATE UNIQUE INDEX {prefix}jobs_held_key ON {jobs} (app, held_key) WHERE held_key IS NOT NULL;
CREATE INDEX {prefix}jobs_key ON {jobs} (app, key) WHERE key IS NOT NULL;
CREATE INDEX {prefix}jobs_due ON {jobs} (next_due_at) WHERE next_due_at IS NOT NULL;
CREATE INDEX {prefix}jobs_aside ON {jobs} (aside_until) WHERE aside_until IS NOT NULL;
CREATE INDEX {prefix}jobs_deleted ON {jobs} (deleted_at) WHERE deleted_at IS NOT NULL;

-- One row per queued or running execution. The claim index holds what may start; a claim changes none of its
-- columns, so that on PostgreSQL it is a heap-only update.
CREATE TABLE {live} (
    id {uuid} PRIMARY KEY,
    job_id {uuid} NOT NULL,
    number {bigint} NOT NULL CHECK (number >= 1),
    attempt {bigint} NOT NULL CHECK (attempt >= 0),
    execution_number {bigint} NOT NULL,
    asked {text} NOT NULL CHECK (asked IN ('schedule', 'hand')),
    due_at {instant} NOT NULL,
    run_at {instant} NOT NULL,
    queued_at {instant} NOT NULL,
    queue {text} NOT NULL,
    priority {bigint} NOT NULL CHECK (priority BETWEEN 1 AND 10),
    task {text} NOT NULL,
    step {text} NOT NULL,
    slot {bigint} CHECK (slot >= -1),
    waits_for {text} CHECK (waits_for IN ('time', 'turn', 'task', 'limit', 'steps', 'resume')),
    fence {bigint} NOT NULL,
    worker_id {uuid},
    started_at {instant},
    version {bigint},
    args {json},
    failures {bigint} NOT NULL,
    losses {bigint} NOT NULL,
    releases {bigint} NOT NULL,
    checkpoint {json},
    progress {json},
    cancel_asked_at {instant},
    cancel_by {text} NOT NULL,
    limit_key {text},                      -- runs with the same key share a limit
    CHECK (worker_id IS NULL OR (waits_for IS NULL AND started_at IS NOT NULL))
) {fillfactor 50} {keyed};

CREATE UNIQUE INDEX {prefix}live_slot ON {live} (job_id, slot);
CREATE UNIQUE INDEX {prefix}live_occurrence ON {live} (job_id, number, step, attempt);
CREATE INDEX {prefix}live_waiting ON {live} (waits_for, run_at) WHERE waits_for IS NOT NULL;
CREATE INDEX {prefix}live_limited ON {live} (limit_key, priority, run_at) WHERE waits_for = 'limit';
CREATE INDEX {prefix}live_limit ON {live} (limit_key, waits_for) WHERE limit_key IS NOT NULL;
CREATE INDEX {prefix}live_parked ON {live} (task, priority, run_at) WHERE waits_for = 'task';

CREATE TABLE {executions} (
    id {uuid} PRIMARY KEY,
    job_id {uuid} NOT NULL,
    number {bigint} NOT NULL,
    step {text} NOT NULL,
    attempt {bigint} NOT NULL,
    execution_number {bigint} NOT NULL,
    asked {text} NOT NULL,
    due_at {instant} NOT NULL,
    run_at {instant} NOT NULL,
    queued_at {instant} NOT NULL,
    started_at {instant},
    finished_at {instant} NOT NULL,
    outcome {text} NOT NULL CHECK (outcome IN ('completed', 'failed', 'timed_out', 'cancelled', 'lost')),
    task {text} NOT NULL,
    queue {text} NOT NULL,
    worker_id {uuid},
    fence {bigint} NOT NULL,
    version {bigint},
    args {json},
    result {json},
    error_kind {text},
    error {text},
    traceback {text},
    failures {bigint} NOT NULL,
    losses {bigint} NOT NULL,
    releases {bigint} NOT NULL,
    checkpoint {json},
    by {text} NOT NULL,
    account {json}                         -- cost of the run and how it stopped; null: unknown
) {keyed};

CREATE UNIQUE INDEX {prefix}executions_occurrence ON {executions} (job_id, number, step, attempt);
CREATE INDEX {prefix}executions_troubled ON {executions} (id) WHERE outcome <> 'completed';

CREATE TABLE {skips} (
    id {uuid} PRIMARY KEY,
    job_id {uuid} NOT NULL,
    reason {text} NOT NULL,
    first_due_at {instant} NOT NULL,
    last_due_at {instant} NOT NULL,
    count {bigint} NOT NULL CHECK (count >= 1),
    recorded_at {instant} NOT NULL,
    in_the_way {uuid},
    CHECK (first_due_at <= last_due_at)
) {keyed};

CREATE INDEX {prefix}skips_job ON {skips} (job_id, last_due_at);

CREATE TABLE {events} (
    id {uuid} PRIMARY KEY,
    at {instant} NOT NULL,
    kind {text} NOT NULL,
    job_id {uuid},
    execution_id {uuid},
    worker_id {uuid},
    by {text} NOT NULL,
    data {json} NOT NULL
) {keyed};

CREATE INDEX {prefix}events_job ON {events} (job_id, id) WHERE job_id IS NOT NULL;
CREATE INDEX {prefix}events_clock ON {events} (id) WHERE kind = 'clock.jumped';
CREATE INDEX {prefix}events_flaw ON {events} (id) WHERE kind = 'audit.flaw';

CREATE TABLE {workers} (
    id {uuid} PRIMARY KEY,
    app {text} NOT NULL,
    host {text} NOT NULL,
    pid {bigint} NOT NULL,
    version {text} NOT NULL,
    tasks {json} NOT NULL,
    queues {json} NOT NULL,
    concurrency {bigint} NOT NULL,
    running {bigint} NOT NULL,
    started_at {instant} NOT NULL,
    renewed_at {instant} NOT NULL,
    lease_until {instant} NOT NULL,
    drain_asked_at {instant},
    closed_at {instant},
    closed_as {text} CHECK (closed_as IN ('stopped', 'lost')),
    CHECK ((closed_at IS NULL) = (closed_as IS NULL))
) {keyed};

CREATE INDEX {prefix}workers_seen ON {workers} (renewed_at);

CREATE TABLE {queues} (
    name {text} PRIMARY KEY,
    paused_at {instant},
    paused_by {text} NOT NULL,
    max_queued {bigint} CHECK (max_queued >= 1)
) {keyed};

-- The status of a job and its next time, as core/lifecycle/status.py computes it, with the columns that searches of
-- jobs use.
CREATE VIEW {job_status} AS
SELECT j.id, j.app, j.key, j.name, j.description, j.task, j.queue, j.priority, j.tags, j.created_at, j.updated_at,
    CASE
        WHEN j.cancelled_at IS NOT NULL THEN 'cancelled'
        WHEN EXISTS (SELECT 1 FROM {live} AS l WHERE l.job_id = j.id
                     AND (l.worker_id IS NOT NULL OR l.waits_for = 'steps')) THEN 'running'
        WHEN j.ended_at IS NOT NULL THEN j.ended_as
        WHEN EXISTS (SELECT 1 FROM {live} AS l WHERE l.job_id = j.id AND l.worker_id IS NULL
                     AND (l.waits_for IS NULL OR l.waits_for IN ('task', 'limit'))
                     AND (l.asked = 'hand' OR j.kind NOT IN ('every', 'cron')
                          OR (l.attempt > 0 AND l.failures = 0 AND l.losses = 0))) THEN 'pending'
        WHEN j.paused_at IS NOT NULL THEN 'paused'
        WHEN EXISTS (SELECT 1 FROM {live} AS l WHERE l.job_id = j.id AND l.worker_id IS NULL
                     AND (l.waits_for IS NULL OR l.waits_for IN ('task', 'limit'))) THEN 'queued'
        WHEN j.kind = 'manual' AND NOT EXISTS (SELECT 1 FROM {live} AS l WHERE l.job_id = j.id) THEN 'pending'
        ELSE 'scheduled'
    END AS status,
    CASE WHEN j.cancelled_at IS NULL AND j.ended_at IS NULL AND j.paused_at IS NULL THEN coalesce(
        (SELECT min(l.run_at) FROM {live} AS l WHERE l.job_id = j.id AND l.worker_id IS NULL
         AND (l.waits_for IS NULL OR l.waits_for <> 'steps')
         AND (j.next_due_at IS NULL OR l.run_at < j.next_due_at)), j.next_due_at)
    END AS next_run_at
FROM {jobs} AS j
WHERE j.deleted_at IS NULL;

-- Limits across all workers: the executions that a rate has admitted lately.
CREATE TABLE {limits} (
    key {text} PRIMARY KEY,
    recent {json} NOT NULL,          -- instants, in microseconds
    until {instant} NOT NULL         -- after this, and without live rows of the key, the row can be deleted
) {keyed};

-- Jobs that run when another completes. The other job's counter rises once per completion, in the transaction of its
-- settle; `seen` is the part of it that this job has followed.

CREATE TABLE {dependencies} (
    job_id {uuid} PRIMARY KEY,
    after_id {uuid} NOT NULL,
    seen {bigint} NOT NULL
) {keyed};

CREATE INDEX {prefix}dependencies_after ON {dependencies} (after_id);

-- Output of runs: their lines (logs), and the size of each execution's log (log_sizes).

CREATE TABLE {log_sizes} (
    execution_id {uuid} PRIMARY KEY,
    lines {bigint} NOT NULL,         -- also the number of the last line
    bytes {bigint} NOT NULL,
    cut {bigint} NOT NULL            -- bytes beyond the limit, which are not stored
) {keyed};

CREATE TABLE {logs} (
    execution_id {uuid} NOT NULL,
    number {bigint} NOT NULL CHECK (number >= 1),
    at {instant} NOT NULL,
    level {bigint} NOT NULL,         -- levels of Python: 10 debug, 20 info, 30 warning, 40 error, 50 critical
    stream {text} NOT NULL CHECK (stream IN ('log', 'stdout', 'stderr')),
    line {text} NOT NULL,
    PRIMARY KEY (execution_id, number)
) {keyed};

-- API keys.

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

-- Answers to requests that may be repeated (Idempotency-Key). Without a status the request is still being answered.
CREATE TABLE {answers} (
    caller {text} NOT NULL,
    key {text} NOT NULL,
    fingerprint {text} NOT NULL,     -- SHA-256 of the request
    began_at {instant} NOT NULL,
    status {bigint},
    headers {json} NOT NULL,
    body {text} NOT NULL,
    PRIMARY KEY (caller, key)
) {keyed};

CREATE INDEX {prefix}answers_began ON {answers} (began_at);

-- Sessions of the dashboard. The cookie is 256 random bits; only its SHA-256 is stored.
CREATE TABLE {sessions} (
    hash {text} PRIMARY KEY,
    name {text} NOT NULL,
    role {text} NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    key_id {uuid},                   -- the API key that began it: a revoked key ends the session
    created_at {instant} NOT NULL,
    expires_at {instant} NOT NULL,
    credential {text} NOT NULL,      -- key:UUID, or token:SHA256[:32]
    signer {text} NOT NULL,          -- fingerprint of the key that verified the token
    issued_at {instant} NOT NULL     -- of the token: `barred` applies to it as to the token
) {keyed};

CREATE INDEX {prefix}sessions_expires ON {sessions} (expires_at);

-- Ended credentials (barred), and declared jobs that were deleted (declined).

CREATE TABLE {barred} (
    what {text} PRIMARY KEY,         -- token:…, name:SUB, or all
    since {instant} NOT NULL,        -- tokens issued at or before this instant are refused
    until {instant},                 -- after this it matches no token: the sweeper deletes the row
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

-- Counts of the executions queued in each past hour, by result: charts of weeks read these, not history.
CREATE TABLE {hours} (
    hour {instant} PRIMARY KEY,      -- its first instant
    completed {bigint} NOT NULL,
    failed {bigint} NOT NULL,
    timed_out {bigint} NOT NULL,
    cancelled {bigint} NOT NULL,
    lost {bigint} NOT NULL
) {keyed};

-- Arguments of users' tasks, as their workers describe them. A table of its own, since a renewal rewrites its worker's
-- row.

CREATE TABLE {task_schemas} (
    name {text} PRIMARY KEY,
    described {json} NOT NULL       -- help, and args as JSON schema, by the worker that started last
) {keyed};

-- Live rows that wait for a budget, and until when.
CREATE TABLE {deferrals} (
    execution_id {uuid} PRIMARY KEY,
    budget {text} NOT NULL,
    until {instant} NOT NULL
) {keyed};

CREATE INDEX {prefix}deferrals_budget ON {deferrals} (budget);

-- [postgres]

-- The claim index orders by priority, then by time, then by when a row was queued (ids rise with time). PostgreSQL
-- orders equal entries of an index by the place of their rows, so one queued later could go first: of twenty sources
-- due at one instant some ran twice before the last had run once. SQLite's index ends with the id anyway.
CREATE INDEX live_queue ON {live} (queue, priority, run_at, id) WHERE waits_for IS NULL;

-- [sqlite]

-- On SQLite a running row leaves the claim index. Otherwise, in a burst, a claim walks over all claimed rows that are
-- not settled yet: thousands, each looked up to see that it runs. Removing a row at the claim costs the same as
-- removing it at the settle. (PostgreSQL keeps it: there a claim that changes no index is far cheaper.)
CREATE INDEX ostinato_live_queue ON {live} (queue, priority, run_at) WHERE waits_for IS NULL AND worker_id IS NULL;
