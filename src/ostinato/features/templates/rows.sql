-- Job templates.

-- name: save_template
INSERT INTO {templates} (name, description, parameters, body, created_at, updated_at, updated_by)
VALUES (:name, :description, :parameters, :body, :now, :now, :by)
ON CONFLICT (name) DO UPDATE SET description = excluded.description, parameters = excluded.parameters,
    body = excluded.body, updated_at = excluded.updated_at, updated_by = excluded.updated_by

-- name: add_template
-- Unless the name is taken.
INSERT INTO {templates} (name, description, parameters, body, created_at, updated_at, updated_by)
VALUES (:name, :description, :parameters, :body, :now, :now, :by)
ON CONFLICT (name) DO NOTHING

-- name: get_template
SELECT name, description, parameters, body, created_at, updated_at, updated_by FROM {templates} WHERE name = :name

-- name: list_templates
SELECT name, description, parameters, body, created_at, updated_at, updated_by FROM {templates} ORDER BY name

-- name: count_templates
SELECT COUNT(*) FROM {templates}

-- name: delete_template
DELETE FROM {templates} WHERE name = :name
