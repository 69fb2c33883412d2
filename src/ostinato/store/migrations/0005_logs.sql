-- What runs wrote: their lines (logs), and how much of each execution's there is (log_sizes).

CREATE TABLE {log_sizes} (
    execution_id {uuid} PRIMARY KEY,
    lines {bigint} NOT NULL,         -- also the number of the last line
    bytes {bigint} NOT NULL,
    cut {bigint} NOT NULL            -- bytes that were too many, and are not kept
) {keyed};

CREATE TABLE {logs} (
    execution_id {uuid} NOT NULL,
    number {bigint} NOT NULL CHECK (number >= 1),
    at {instant} NOT NULL,
    level {bigint} NOT NULL,         -- as Python counts: 10 debug, 20 info, 30 warning, 40 error, 50 critical
    stream {text} NOT NULL CHECK (stream IN ('log', 'stdout', 'stderr')),
    line {text} NOT NULL,
    PRIMARY KEY (execution_id, number)
) {keyed};
