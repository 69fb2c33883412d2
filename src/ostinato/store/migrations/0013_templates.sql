-- Job templates of users; those that we bring are not here.
CREATE TABLE {templates} (
    name {text} PRIMARY KEY,
    description {text} NOT NULL,
    parameters {json} NOT NULL,
    body {json} NOT NULL,            -- of a job, with holes
    created_at {instant} NOT NULL,
    updated_at {instant} NOT NULL,
    updated_by {text} NOT NULL
) {keyed};
