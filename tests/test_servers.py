"""The databases that the other tests stand on."""

import re
import subprocess
from pathlib import Path

import psycopg
import pytest

from ostinato.chance import RandomChance
from ostinato.store import migrate
from ostinato.store.database import open_database
from ostinato.store.store import Store
from tests.servers import binaries

LEFT_OPEN = []


def test_an_empty_database_has_no_schema(empty_database_url):
    if empty_database_url.startswith("sqlite:///"):
        assert not Path(empty_database_url.removeprefix("sqlite:///")).exists()
    else:
        with psycopg.connect(empty_database_url) as connection:
            connection.execute("CREATE SCHEMA ostinato")


def test_a_database_has_the_schema_and_no_rows(database_url):
    database = open_database(database_url)
    assert migrate.schema_version(database) == migrate.latest_versions(database.features)["core"]
    Store(database, RandomChance(1)).remember("a note", "of this test")
    database.close()


VANDALISM = [
    "DELETE FROM ostinato.meta",
    "UPDATE ostinato.meta SET value = '1'",
    "DROP TABLE ostinato.jobs CASCADE",
    "DROP SCHEMA ostinato CASCADE",
    "CREATE TABLE ostinato.mine (id int)",
    "CREATE INDEX mine ON ostinato.jobs (name)",
    "DROP INDEX ostinato.jobs_due",
    "ALTER TABLE ostinato.jobs ADD COLUMN mine int",
    "ALTER TABLE ostinato.jobs ALTER COLUMN name DROP NOT NULL",
    "ALTER TABLE ostinato.jobs ALTER COLUMN name SET DEFAULT 'mine'",
    "ALTER TABLE ostinato.jobs SET (autovacuum_enabled = off)",
    "ALTER TABLE ostinato.jobs DROP CONSTRAINT jobs_version_check",
    "REVOKE ALL ON ostinato.jobs FROM postgres",
    "REVOKE ALL ON SCHEMA ostinato FROM postgres",
    "INSERT INTO ostinato.meta SELECT n::text, n::text FROM generate_series(1, 10000) AS n",
    "INSERT INTO ostinato.meta VALUES ('mine', 'mine'); ANALYZE ostinato.meta",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()",
]


@pytest.fixture(scope="module")
def as_made(postgres_schema):
    postgres_schema.remove()
    postgres_schema.without_rows()
    return _everything(postgres_schema.url)


@pytest.mark.parametrize("done", VANDALISM)
def test_whatever_a_test_does_to_the_schema_the_next_gets_it_as_the_migrations_leave_it(postgres_schema, as_made, done):
    postgres_schema.without_rows()
    with psycopg.connect(postgres_schema.url, autocommit=True) as connection:
        connection.execute(done)
    postgres_schema.without_rows()
    assert _everything(postgres_schema.url) == as_made


def _everything(url: str) -> str:
    """All that is in the database, rows too, as its own program writes it down; and what the planner knows."""
    found = subprocess.run(
        [binaries() / "pg_dump", "--schema=ostinato", url], check=True, capture_output=True, text=True
    ).stdout
    with psycopg.connect(url) as connection:
        known = connection.execute("SELECT count(*) FROM pg_stats WHERE schemaname = 'ostinato'").fetchone()
    told = "\n".join(line for line in found.splitlines() if "restrict" not in line) + str(known)
    identity = re.compile(r"^(database_id|generation)\t.+\n", re.MULTILINE)  # each schema that is made has its own
    return identity.sub("", told) + str(sorted(identity.findall(told)))


def test_emptying_keeps_what_need_not_be_made_anew(postgres_schema):
    postgres_schema.without_rows()
    before = _number_of_the_jobs_table(postgres_schema.url)
    postgres_schema.without_rows()
    assert _number_of_the_jobs_table(postgres_schema.url) == before


def _number_of_the_jobs_table(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT 'ostinato.jobs'::regclass::oid::int").fetchone()
    assert row is not None
    return row[0]


@pytest.mark.xdist_group("left open")
@pytest.mark.parametrize("time", ["first", "second"])
def test_what_a_test_leaves_open_does_not_block_the_next(postgres_url, time):
    connection = psycopg.connect(postgres_url)
    LEFT_OPEN.append(connection)
    connection.execute("LOCK TABLE ostinato.jobs, ostinato.meta")
