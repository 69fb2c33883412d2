-- How many executions were queued in each past hour, by how they ended: charts of weeks read these, not history.
CREATE TABLE {hours} (
    hour {instant} PRIMARY KEY,      -- its beginning
    completed {bigint} NOT NULL,
    failed {bigint} NOT NULL,
    timed_out {bigint} NOT NULL,
    cancelled {bigint} NOT NULL,
    lost {bigint} NOT NULL
) {keyed};
