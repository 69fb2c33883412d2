-- Jobs that run when another completes. The counter of that other is the note: it rises once for each completion, in
-- the transaction of its settle; `seen` is how far this one has followed it.

CREATE TABLE {dependencies} (
    job_id {uuid} PRIMARY KEY,
    after_id {uuid} NOT NULL,
    seen {bigint} NOT NULL
) {keyed};

CREATE INDEX {prefix}dependencies_after ON {dependencies} (after_id);
