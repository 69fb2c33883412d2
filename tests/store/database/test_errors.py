"""Refused statements, unusable URLs, and the effects of opening a database."""

import sqlite3
import subprocess
import sys
from uuid import uuid4

import pytest

from ostinato.core.errors import Invalid, RowRefused, StoreError
from ostinato.store.database import Duplicate, open_database
from tests.store.database.conftest import add


def test_a_unique_index_that_refuses_is_a_duplicate(db):
    add(db, 1, "a")
    with pytest.raises(Duplicate) as caught:
        add(db, 2, "a")
    assert caught.value.what in ("jobs_note", "ostinato_jobs.note")
    same = uuid4()
    with pytest.raises(Duplicate), db.write() as tx:
        tx.run("add_many", [(same, 1, None, None, None, None)] * 2)


def test_a_check_that_refuses_is_a_refused_row(db):
    with pytest.raises(RowRefused, match="refused") as caught:
        add(db, 1_000_000)
    assert not isinstance(caught.value, Duplicate)


def test_a_text_that_is_too_long_is_a_refused_row(lite):
    add(lite, 1)
    lite._writer.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
    with pytest.raises(RowRefused):
        add(lite, 2, "x" * 2000)


def test_a_file_that_cannot_be_written_now_blames_no_row(lite):
    add(lite, 1)
    lite._writer.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError) as caught:
        add(lite, 2)
    assert not isinstance(caught.value, RowRefused)


@pytest.mark.parametrize(
    "url", ["", "mysql://x:secret@y/z", "sqlite:", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://x.db",
            "sqlite:///a.db?mode=ro", "/tmp/x.db", "postgresql://u:secret@[::1/x", "postgresql://u:secret@h:port/x",
            "postgresql://u:secret/x@h/x"],
)  # fmt: skip
def test_a_url_that_cannot_be_used_is_refused_with_a_sentence_and_without_secrets(url):
    with pytest.raises(Invalid, match=r"[.]$") as caught:
        open_database(url)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_database_has_a_name_for_people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_database("sqlite:///a.db").name == f"{tmp_path}/a.db"
    assert open_database(f"sqlite:///{tmp_path}/a.db").name == f"{tmp_path}/a.db"
    name = open_database("postgres://me:secret@db.example:5433/shop?sslmode=prefer&password=secret").name
    assert name == "postgresql://me@db.example:5433/shop"


def test_opening_touches_nothing(tmp_path):
    open_database(f"sqlite:///{tmp_path}/a.db").close()
    open_database("postgresql://nobody@127.0.0.1:1/x").close()
    assert list(tmp_path.iterdir()) == []


def test_psycopg_is_imported_for_postgresql_only(tmp_path):
    code = "import sys; from ostinato.store.database import open_database; "
    code += "open_database(sys.argv[1]); print('psycopg' in sys.modules)"
    assert run_python(code, f"sqlite:///{tmp_path}/a.db") == "False"
    assert run_python(code, "postgresql://x@y/z") == "True"


def run_python(code, *arguments):
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()
