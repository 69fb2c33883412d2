-- What a job had counted when it was restarted last: {"completed", "errors"}; empty: never.
ALTER TABLE {jobs} ADD COLUMN restarted {json} NOT NULL DEFAULT '{}';
