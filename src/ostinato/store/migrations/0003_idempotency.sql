-- What was answered to a request that may come again (Idempotency-Key). Without a status it is being answered.
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
