"""`ostinato db upgrade` and `db check`."""

import json
import sqlite3

import pytest

from ostinato import Ostinato
from ostinato.store.database import open_database


def test_upgrade_makes_the_schema_and_can_be_repeated(ostinato, empty_database_url):
    first = ostinato("db", "upgrade", "--database", empty_database_url)
    assert first.code == 0
    assert "is at version" in first.out
    assert "Applied 0001_core" in first.out
    second = ostinato("db", "upgrade", "--database", empty_database_url)
    assert (second.code, second.out.splitlines()[-1]) == (0, "The schema is up to date.")


def test_check_finds_nothing_in_a_sound_database(ostinato, empty_database_url):
    ostinato("db", "upgrade", "--database", empty_database_url)
    answer = ostinato("db", "check", "--database", empty_database_url)
    assert (answer.code, answer.out.splitlines()[-1]) == (0, "No problems found.")


def test_check_tells_what_does_not_add_up(ostinato, empty_sqlite_url):
    app = Ostinato(database_url=empty_sqlite_url)
    app.register("work", lambda: None).enqueue()
    app.close()
    with sqlite3.connect(empty_sqlite_url.removeprefix("sqlite:///")) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("UPDATE ostinato_jobs SET completed = 7")
    connection.close()
    answer = ostinato("db", "check", "--database", empty_sqlite_url)
    assert answer.code == 1
    assert "counts 7 completed" in answer.out


def test_check_names_a_schema_that_is_not_there(ostinato, empty_postgres_url):
    answer = ostinato("db", "check", "--database", empty_postgres_url)
    assert answer.code == 1
    assert "The schema is not there yet" in answer.out
    assert "run `ostinato db upgrade`" in answer.out


def test_check_makes_nothing(ostinato, empty_sqlite_url, tmp_path):
    answer = ostinato("db", "check", "--database", empty_sqlite_url)
    assert (answer.code, answer.out) == (3, "")
    assert answer.err == f"There is no database {tmp_path}/ostinato.db yet.\n"
    assert not (tmp_path / "ostinato.db").exists()


def test_the_database_of_the_settings_is_the_default(ostinato, tmp_path, monkeypatch):
    monkeypatch.setenv("OSTINATO_DATABASE_URL", "sqlite:///from-env.db")
    assert ostinato("db", "upgrade").code == 0
    assert (tmp_path / "from-env.db").exists()
    assert ostinato("db", "upgrade", "--database", "sqlite:///from-flag.db").code == 0
    assert (tmp_path / "from-flag.db").exists(), "flags come first"


@pytest.mark.parametrize("command", [["db", "check"], ["db", "upgrade"], ["serve", "--port", "0"]])
def test_a_file_that_is_not_ours_is_left_as_it_is(ostinato, tmp_path, command):
    (tmp_path / "letter.txt").write_text("Dear Sir or Madam")
    answer = ostinato(*command, "--database", "sqlite:///letter.txt")
    assert answer.code == 5
    assert answer.err == f"{tmp_path}/letter.txt is not a SQLite database: it is left as it is.\n"
    assert (tmp_path / "letter.txt").read_text() == "Dear Sir or Madam"


def test_a_database_of_a_newer_version_is_refused(ostinato, empty_database_url):
    ostinato("db", "upgrade", "--database", empty_database_url)
    database = open_database(empty_database_url)
    with database.write() as tx:
        meta = database.dialect.table("meta")
        tx.run(database.dialect.statement(f"UPDATE {meta} SET value = '99' WHERE key = 'version:core'"))
    database.close()
    for command in ("check", "upgrade"):
        answer = ostinato("db", command, "--database", empty_database_url)
        assert answer.code == 5
        assert "is version 99" in answer.err
        assert "use a newer Ostinato" in answer.err


@pytest.mark.parametrize(
    ("url", "code", "sentence"),
    [
        ("postgresql://me:secret@127.0.0.1:1/none", 5, "No connection to postgresql://me@127.0.0.1:1/none"),
        ("mysql://localhost/x", 2, "database_url cannot be 'mysql://localhost/x'"),
        ("sqlite:///no/such/folder/x.db", 2, "does not exist: make it first"),
        ("sqlite:///:memory:", 2, "in memory would remember nothing"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_sentence(ostinato, url, code, sentence):
    answer = ostinato("db", "upgrade", "--database", url)
    assert (answer.code, answer.out) == (code, "")
    assert sentence in answer.err
    assert len(answer.err.splitlines()) == 1
    assert "secret" not in answer.err


# -- backup


def test_a_backup_and_the_way_back(ostinato, empty_database_url, tmp_path):
    app = Ostinato(database_url=empty_database_url)
    app.open(upgrade=True)
    job = app.register("work", lambda: None).enqueue()
    app.close()
    copy = tmp_path / "copy.db"
    answer = ostinato("db", "backup", str(copy), "--database", empty_database_url)
    assert answer.err == ""
    assert (answer.code, answer.out.splitlines()[0]) == (
        0,
        f"{copy} holds a full backup, {copy.stat().st_size:,} bytes.",
    )
    target = f"sqlite:///{tmp_path}/target.db"
    restored = ostinato("db", "restore", str(copy), "--database", target)
    said, identity = restored.out.splitlines()
    assert (restored.code, said) == (0, f"{copy} was restored into {tmp_path}/target.db.")
    assert identity.partition(", ")[0] == answer.out.splitlines()[1].partition(", ")[0], "the same database"
    assert identity != answer.out.splitlines()[1], "in another generation"
    assert str(job.id) in ostinato("job", "list", "--database", target).out
    assert ostinato("db", "restore", str(copy), "--database", target).code == 4
    assert ostinato("db", "backup", str(copy), "--database", empty_database_url).code == 4


def test_a_backup_of_nothing(ostinato, empty_sqlite_url, tmp_path):
    answer = ostinato("db", "backup", "copy.db", "--database", empty_sqlite_url)
    assert (answer.code, answer.out) == (3, "")
    assert not (tmp_path / "ostinato.db").exists()
    assert ostinato("db", "restore", "copy.db", "--database", empty_sqlite_url).code == 3


def test_everything_as_json(ostinato, empty_database_url, tmp_path):
    def answer(*arguments):
        return json.loads(ostinato("db", *arguments, "--database", empty_database_url, "--json").out)

    upgraded = answer("upgrade")
    assert upgraded["applied"][0] == "0001_core"
    identity = {name: upgraded[name] for name in ("database_id", "generation")}
    assert (
        answer("check")
        == {
            "database": upgraded["database"],
            "version": upgraded["version"],
            "problems": [],
        }
        | identity
    )
    copy = tmp_path / "copy.db"
    assert answer("backup", str(copy)) == {"file": str(copy), "bytes": copy.stat().st_size} | identity
    restored = answer("restore", str(copy))
    assert restored.pop("generation") != identity["generation"]
    assert restored == {
        "database": upgraded["database"],
        "database_id": identity["database_id"],
        "file": str(copy),
    }
