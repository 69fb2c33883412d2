-- Workflows: named graphs of nodes. A run keeps the version that it began with, so versions are never changed.

CREATE TABLE {workflows} (
    id {bigint} PRIMARY KEY,         -- from 1, never used again
    name {text} NOT NULL,
    held_name {text},                -- the name while it is not deleted: unique
    description {text} NOT NULL,
    version {bigint} NOT NULL CHECK (version >= 1),
    inactive_at {instant},           -- it starts no more
    declared {text},                 -- the app whose code declares it
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
