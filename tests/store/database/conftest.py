"""Databases with one small table and statements about it."""

from contextlib import closing
from datetime import UTC, datetime
from inspect import signature
from uuid import uuid4

import pytest

from ostinato.store.database import open_database

USUAL_DEADLINE = signature(open_database).parameters["deadline"].default
STATEMENTS = """
-- name: add
INSERT INTO {jobs} (id, x, note) VALUES (:id, :x, :note)
-- name: add_many
INSERT INTO {jobs} (id, x, at, note, weight, args) SELECT u.id, u.x, u.at, u.note, u.weight, u.args
FROM {rows: id uuid, x bigint, at instant, note text, weight double, args json} WHERE true
-- name: move
UPDATE {jobs} AS j SET x = u.x FROM {rows: id uuid, x bigint} WHERE j.id = u.id
-- name: move_known
WITH known AS (SELECT u.id AS id, u.x AS x FROM {rows: id uuid, x bigint})
UPDATE {jobs} SET x = 0 WHERE id IN (SELECT id FROM known)
-- name: remove
DELETE FROM {jobs} WHERE id IN (SELECT u.id FROM {rows: id uuid}) RETURNING id
-- name: chosen
SELECT id FROM {jobs} WHERE id {in: ids uuid} AND note {in: notes text} AND x {in: xs bigint} ORDER BY x
-- name: all
SELECT id, x, at, note, weight, args FROM {jobs} ORDER BY x
-- name: by_note
SELECT x FROM {jobs} WHERE note = :note
-- name: percent
SELECT count(*) FROM {jobs} WHERE note LIKE '50%' AND x % 2 = 0 AND x < :x
-- name: since
SELECT x FROM {jobs} WHERE at >= :at
-- name: lock
SELECT x FROM {jobs} WHERE x = :x {for_update}
-- name: slow [postgres]
SELECT pg_sleep(30)
-- name: slow [sqlite]
SELECT 1
"""

TABLE = """
CREATE TABLE {jobs} (id {uuid} PRIMARY KEY, x {bigint} NOT NULL CHECK (x < 1000000), at {instant}, note {text},
    weight {double}, args {json}) {keyed} {fillfactor 50};
CREATE UNIQUE INDEX {prefix}jobs_note ON {jobs} (note) WHERE note IS NOT NULL;
"""

NOON = datetime(2026, 11, 16, 12, 0, 0, 123456, tzinfo=UTC)


def opened(url, **options):
    database = open_database(url, **options)
    database.load(STATEMENTS)
    return database


def with_table(url, **options):
    database = opened(url, **options)
    with database.write() as tx:
        if url.startswith("postgres"):
            tx.run(database.dialect.statement("CREATE SCHEMA {schema}"))
        for statement in database.dialect.script(TABLE):
            tx.run(statement)
    return database


@pytest.fixture
def db(empty_database_url):
    with closing(with_table(empty_database_url)) as database:
        yield database


@pytest.fixture
def lite(empty_sqlite_url):
    with closing(with_table(empty_sqlite_url)) as database:
        yield database


@pytest.fixture
def pg(empty_postgres_url):
    with closing(with_table(empty_postgres_url)) as database:
        yield database


def xs(database):
    with database.read() as tx:
        return [row[1] for row in tx.rows("all")]


def add(database, x, note=None):
    with database.write() as tx:
        return tx.run("add", id=uuid4(), x=x, note=note)
