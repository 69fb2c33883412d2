-- Who has come into the dashboard. The cookie is 256 random bits; here is its SHA-256 alone.
CREATE TABLE {sessions} (
    hash {text} PRIMARY KEY,
    name {text} NOT NULL,
    role {text} NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    key_id {uuid},                   -- the API key that it was begun with: revoked, it ends the session
    created_at {instant} NOT NULL,
    expires_at {instant} NOT NULL
) {keyed};

CREATE INDEX {prefix}sessions_expires ON {sessions} (expires_at);
