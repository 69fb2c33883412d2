-- Job templates of users; built-in templates are not stored.
CREATE TABLE {templates} (
    name {text} PRIMARY KEY,
    description {text} NOT NULL,
    parameters {json} NOT NULL,
    body {json} NOT NULL,            -- of a job, with placeholders
    created_at {instant} NOT NULL,
    updated_at {instant} NOT NULL,
    updated_by {text} NOT NULL
) {keyed};
