"""The schema: created, upgraded, and never mistaken for a foreign one."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from ostinato.core.errors import ForeignDatabase, SchemaBehind, StoreError
from ostinato.store.database import open_database
from ostinato.store.migrate import require_current, schema_version, upgrade
from tests.waiting import PATIENCE

FIRST = """
-- Jobs; and what is -- not a comment.
CREATE TABLE {jobs} (id {uuid} PRIMARY KEY, note {text} NOT NULL DEFAULT '--;', at {instant}) {keyed} {fillfactor 50};
CREATE INDEX {prefix}jobs_at ON {jobs} (at) WHERE at IS NOT NULL;
"""
SECOND = "CREATE TABLE {skips} (id {uuid} PRIMARY KEY) {keyed};\nINSERT INTO {meta} (key, value) VALUES ('two', '2');"
BROKEN = "CREATE TABLE {events} (id {uuid} PRIMARY KEY) {keyed};\nINSERT INTO {meta} (key) VALUES (NULL);"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0001_first.sql").write_text(FIRST)
    return folder


@pytest.fixture
def db(empty_database_url):
    database = open_database(empty_database_url)
    yield database
    database.close()


def raw(url):
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    return psycopg.connect(url, autocommit=True)


def execute(url, *statements):
    connection = raw(url)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_an_empty_database_has_version_0(db):
    assert schema_version(db) == 0


def test_an_upgrade_applies_what_is_missing_and_says_what(db, folder):
    assert upgrade(db, folder) == ["0001_first"]
    assert schema_version(db) == 1
    (folder / "0002_second.sql").write_text(SECOND)
    assert upgrade(db, folder) == ["0002_second"]
    assert schema_version(db) == 2
    assert upgrade(db, folder) == []


def test_a_migration_that_fails_leaves_nothing_of_itself(db, folder):
    (folder / "0002_second.sql").write_text(BROKEN)
    with pytest.raises(StoreError):
        upgrade(db, folder)
    assert schema_version(db) == 1
    (folder / "0002_second.sql").write_text(SECOND)
    assert upgrade(db, folder) == ["0002_second"]


def test_migrations_are_numbered_without_a_gap(db, folder):
    (folder / "0003_third.sql").write_text(SECOND)
    with pytest.raises(StoreError, match="not numbered"):
        upgrade(db, folder)


def test_sqlite_brings_itself_up_to_date(empty_sqlite_url, folder):
    lite = open_database(empty_sqlite_url)
    require_current(lite, folder)
    assert schema_version(lite) == 1
    (folder / "0002_second.sql").write_text(SECOND)
    require_current(lite, folder)
    assert schema_version(lite) == 2


def test_postgresql_is_upgraded_only_when_asked(empty_postgres_url, folder):
    pg = open_database(empty_postgres_url)
    with pytest.raises(SchemaBehind, match=r"not there yet.* run `ostinato db upgrade`"):
        require_current(pg, folder)
    assert schema_version(pg) == 0
    upgrade(pg, folder)
    require_current(pg, folder)
    (folder / "0002_second.sql").write_text(SECOND)
    with pytest.raises(SchemaBehind, match="is version 1, this program needs version 2: run `ostinato db upgrade`"):
        require_current(pg, folder)
    pg.close()


def test_a_newer_schema_is_refused(db, folder):
    (folder / "0002_second.sql").write_text(SECOND)
    upgrade(db, folder)
    (folder / "0002_second.sql").unlink()
    for act in (require_current, upgrade):
        with pytest.raises(ForeignDatabase, match="version 2, this program knows version 1"):
            act(db, folder)
    assert schema_version(db) == 2


def test_tables_of_our_names_that_are_not_ours_are_refused(db, empty_database_url, folder):
    if empty_database_url.startswith("sqlite"):
        execute(empty_database_url, "CREATE TABLE ostinato_jobs (x)")
    else:
        execute(empty_database_url, "CREATE SCHEMA ostinato", "CREATE TABLE ostinato.jobs (x bigint)")
    for act in (require_current, upgrade):
        with pytest.raises(ForeignDatabase, match="not ours: it is left as it is"):
            act(db, folder)


@pytest.mark.parametrize("columns", ["x bigint", "key text, value text"])
def test_a_meta_that_is_not_ours_is_refused(db, empty_database_url, folder, columns):
    if empty_database_url.startswith("sqlite"):
        execute(empty_database_url, f"CREATE TABLE ostinato_meta ({columns})")
    else:
        execute(empty_database_url, "CREATE SCHEMA ostinato", f"CREATE TABLE ostinato.meta ({columns})")
    with pytest.raises(ForeignDatabase, match="not ours"):
        upgrade(db, folder)


def test_other_peoples_tables_are_left_alone(db, empty_database_url, folder):
    execute(
        empty_database_url,
        "DROP TABLE IF EXISTS jobs",
        "CREATE TABLE jobs (x bigint)",
        "INSERT INTO jobs VALUES (7)",
    )
    upgrade(db, folder)
    with db.read() as tx:
        assert tx.rows(db.dialect.statement("SELECT x FROM jobs")) == [(7,)]
    execute(empty_database_url, "DROP TABLE jobs")


def test_schemas_do_not_know_each_other(empty_postgres_url, folder):
    execute(empty_postgres_url, "DROP SCHEMA IF EXISTS second CASCADE")
    one, two = open_database(empty_postgres_url), open_database(empty_postgres_url, schema="second")
    assert upgrade(one, folder) == upgrade(two, folder) == ["0001_first"]
    one.close()
    two.close()
    execute(empty_postgres_url, "DROP SCHEMA second CASCADE")


def test_a_schema_that_somebody_made_for_us_is_enough(empty_postgres_url, folder):
    execute(
        empty_postgres_url,
        "CREATE SCHEMA ostinato",
        "DROP ROLE IF EXISTS plain",
        "CREATE ROLE plain LOGIN",
        "GRANT USAGE, CREATE ON SCHEMA ostinato TO plain",
    )
    pg = open_database(empty_postgres_url.replace("postgres@", "plain@"))
    assert upgrade(pg, folder) == ["0001_first"]
    pg.close()
    execute(empty_postgres_url, "DROP OWNED BY plain", "DROP ROLE plain")


@pytest.mark.system
def test_many_processes_may_upgrade_at_once(db, empty_database_url, folder):
    (folder / "0002_second.sql").write_text(SECOND)
    code = (
        "import sys, pathlib; from ostinato.store.database import open_database\n"
        "from ostinato.store.migrate import upgrade\n"
        "print(upgrade(open_database(sys.argv[1]), pathlib.Path(sys.argv[2])))"
    )
    command = [sys.executable, "-c", code, empty_database_url, str(folder)]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    applied = [name for other in others for name in eval(other.communicate(timeout=PATIENCE)[0])]
    assert sorted(applied) == ["0001_first", "0002_second"]
    assert schema_version(db) == 2


def test_the_migrations_of_the_house_are_found():
    from ostinato.store import migrate

    assert Path(migrate.__file__).parent / "migrations" == migrate.MIGRATIONS


def test_a_database_of_an_unreleased_version_is_refused(db, empty_database_url, folder):
    if empty_database_url.startswith("sqlite"):
        table = "ostinato_meta"
    else:
        execute(empty_database_url, "CREATE SCHEMA ostinato")
        table = "ostinato.meta"
    execute(
        empty_database_url,
        f"CREATE TABLE {table} (key text PRIMARY KEY, value text NOT NULL)",
        f"INSERT INTO {table} VALUES ('schema_version', '19')",
    )
    for act in (require_current, upgrade):
        with pytest.raises(ForeignDatabase, match=r"unreleased version: export its jobs there \(`ostinato export`\)"):
            act(db, folder)
