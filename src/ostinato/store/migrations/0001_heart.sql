-- The future (jobs), the present (live) and the past (executions), and what tells about them.
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
    aside_until {instant},                 -- no rule could deal with it: looked at again then; its due time is kept
    pruned {json} NOT NULL DEFAULT '{}',   -- what retention took away: executions by result, and skipped due times
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
    CHECK (worker_id IS NULL OR (waits_for IS NULL AND started_at IS NOT NULL))
) {fillfactor 50} {keyed};

CREATE UNIQUE INDEX {prefix}live_slot ON {live} (job_id, slot);
CREATE UNIQUE INDEX {prefix}live_occurrence ON {live} (job_id, number, step, attempt);
CREATE INDEX {prefix}live_queue ON {live} (queue, priority, run_at) WHERE waits_for IS NULL;
CREATE INDEX {prefix}live_waiting ON {live} (waits_for, run_at) WHERE waits_for IS NOT NULL;
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
    result {text} NOT NULL CHECK (result IN ('completed', 'failed', 'timed_out', 'cancelled', 'lost')),
    task {text} NOT NULL,
    queue {text} NOT NULL,
    worker_id {uuid},
    fence {bigint} NOT NULL,
    version {bigint},
    args {json},
    value {json},
    error_kind {text},
    error {text},
    traceback {text},
    failures {bigint} NOT NULL,
    losses {bigint} NOT NULL,
    releases {bigint} NOT NULL,
    checkpoint {json},
    by {text} NOT NULL
) {keyed};

CREATE UNIQUE INDEX {prefix}executions_occurrence ON {executions} (job_id, number, step, attempt);
CREATE INDEX {prefix}executions_troubled ON {executions} (id) WHERE result <> 'completed';

CREATE TABLE {skips} (
    id {uuid} PRIMARY KEY,
    job_id {uuid} NOT NULL,
    reason {text} NOT NULL CHECK (reason IN ('overlap', 'missed', 'paused', 'window', 'budget', 'failed')),
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

-- What a job is doing and when it does something next, as core/lifecycle/status.py says it, beside what jobs are
-- searched by.
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
