-- Workflows: named graphs of nodes. A run uses the version that it began with, so versions are never changed.

CREATE TABLE {workflows} (
    id {bigint} PRIMARY KEY,         -- from 1, never reused
    name {text} NOT NULL,
    held_name {text},                -- the name while it is not deleted: unique
    description {text} NOT NULL,
    version {bigint} NOT NULL CHECK (version >= 1),
    inactive_at {instant},           -- from then on it starts no runs
    declared {text},                 -- a hash of its last declaration in code
    created_at {instant} NOT NULL,
    updated_at {instant} NOT NULL,
    deleted_at {instant}
) {keyed};

CREATE UNIQUE INDEX {prefix}workflows_held_name ON {workflows} (held_name) WHERE held_name IS NOT NULL;

CREATE TABLE {workflow_versions} (
    workflow_id {bigint} NOT NULL,
    version {bigint} NOT NULL,
    nodes {json} NOT NULL,
    created_at {instant} NOT NULL,
    by {text} NOT NULL,
    PRIMARY KEY (workflow_id, version)
) {keyed};
