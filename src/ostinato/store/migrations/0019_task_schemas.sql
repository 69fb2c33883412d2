-- What the user's tasks take, as their workers describe it. A table of its own: a renewal rewrites the row of its worker.

CREATE TABLE {task_schemas} (
    name {text} PRIMARY KEY,
    described {json} NOT NULL       -- help, and args as JSON schema, by the worker that started last
) {keyed};
