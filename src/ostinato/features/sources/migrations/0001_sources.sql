-- The state of sources: how far each has read its API.
CREATE TABLE {source_states} (
    job_id {uuid} NOT NULL,
    part {text} NOT NULL,            -- '': the whole source
    cursor {json} NOT NULL,          -- the value from which the next run asks for records
    saved_at {instant} NOT NULL,
    PRIMARY KEY (job_id, part)
) {keyed};
