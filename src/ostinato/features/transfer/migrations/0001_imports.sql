-- Imports from other systems, and the jobs that came with each.

CREATE TABLE {imports} (
    name {text} PRIMARY KEY,
    kind {text} NOT NULL,
    source {text} NOT NULL,          -- where it was read from, without a password
    jobs {bigint} NOT NULL CHECK (jobs >= 0),
    at {instant} NOT NULL,
    by {text} NOT NULL,
    undone_at {instant}
) {keyed};

CREATE TABLE {imported} (
    job_id {uuid} PRIMARY KEY,
    of_import {text} NOT NULL,
    ref {text} NOT NULL              -- what the other system calls the job
) {keyed};

CREATE INDEX {prefix}imported_of ON {imported} (of_import, job_id);
