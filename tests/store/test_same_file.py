"""A SQLite file that is moved, deleted or replaced under a process that has it open."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from ostinato.core.errors import DatabaseReplaced
from ostinato.store.database import open_database
from ostinato.store.sqlite import SqliteDatabase

KEYS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(*connection.execute("PRAGMA integrity_check").fetchone())
for (key,) in connection.execute("SELECT key FROM ostinato_meta ORDER BY key"):
    print(key)
"""
INSERT = "INSERT INTO {meta} (key, value) VALUES (:key, 'x')"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


def opened(file: Path) -> SqliteDatabase:
    database = open_database(f"sqlite:///{file}", durable=False)
    with database.write() as tx:
        tx.run(database.dialect.statement("CREATE TABLE IF NOT EXISTS {meta} (key TEXT PRIMARY KEY, value TEXT)"))
    return database


def put(database: SqliteDatabase, key: str) -> None:
    with database.write() as tx:
        tx.run(database.dialect.statement(INSERT), key=key)


def keys(file: Path) -> list[str]:
    """Return the keys of a whole file, read by another process: one with stale connections would see its own log."""
    found = subprocess.run([sys.executable, "-c", KEYS, str(file)], check=True, capture_output=True, text=True)
    whole, *names = found.stdout.splitlines()
    assert whole == "ok"
    return names


def moved(file: Path) -> None:
    for beside in ("", "-wal", "-shm"):
        os.rename(f"{file}{beside}", f"{file}.moved{beside}")


def deleted(file: Path) -> None:
    for beside in ("", "-wal", "-shm"):
        os.unlink(f"{file}{beside}")


def replaced(file: Path) -> None:
    copy = file.with_name("copy.db")
    with closing(sqlite3.connect(file)) as ours, closing(sqlite3.connect(copy)) as other:
        ours.backup(other)
    os.replace(copy, file)


def without_its_log(file: Path) -> None:
    for beside in ("-wal", "-shm"):
        os.unlink(f"{file}{beside}")


@pytest.mark.parametrize("harm", [moved, deleted, replaced, without_its_log])
def test_nothing_is_read_or_written_once_the_file_is_another(file, harm):
    database = opened(file)
    put(database, "before")
    harm(file)
    for _ in range(2):
        with pytest.raises(DatabaseReplaced, match=r"a\.db was moved, deleted or replaced"):
            put(database, "after")
        with pytest.raises(DatabaseReplaced), database.read():
            pass
        with pytest.raises(DatabaseReplaced):
            database.upkeep()
    database.close()


@pytest.mark.parametrize("harm", [moved, deleted, without_its_log])
def test_the_other_process_keeps_every_commit_though_the_first_one_closes(file, harm):
    """Closing the old connections would delete the log of the other process by its name."""
    first = opened(file)
    put(first, "first")
    first.upkeep()  # otherwise the commits would be lost with the log
    harm(file)
    script = (
        "import sys; from tests.store.test_same_file import *; database = opened(Path(sys.argv[1]))\n"
        "for n in range(300): put(database, f'{n:03}')\n"
        "database.close()"
    )
    subprocess.run([sys.executable, "-c", script, str(file)], check=True)
    with pytest.raises(DatabaseReplaced):
        put(first, "late")
    first.close()
    del first
    assert [key for key in keys(file) if key != "first"] == [f"{n:03}" for n in range(300)]
    if harm is moved:
        assert keys(Path(f"{file}.moved")) == ["first"]


def test_a_file_that_is_back_in_its_place_is_used_again(file):
    database = opened(file)
    put(database, "before")
    moved(file)
    with pytest.raises(DatabaseReplaced):
        put(database, "meanwhile")
    for beside in ("", "-wal", "-shm"):
        os.rename(f"{file}.moved{beside}", f"{file}{beside}")
    put(database, "again")
    database.close()
    assert keys(file) == ["again", "before"]


def test_another_file_is_accepted_after_a_close(file):
    database = opened(file)
    put(database, "old")
    database.close()
    os.rename(file, f"{file}.moved")
    with closing(opened(file)) as other:
        put(other, "new")
    put(database, "newer")
    database.close()
    assert keys(file) == ["new", "newer"]


def test_a_log_that_sqlite_deletes_between_two_connections_is_no_alarm(file):
    """The only connection is lost to an error; another process then leaves as the last one."""
    database = without_connections(file)
    log = os.stat(f"{file}-wal").st_ino if os.path.exists(f"{file}-wal") else None
    with closing(opened(file)) as other:
        put(other, "a")
    assert not os.path.exists(f"{file}-wal"), f"the last one leaves no log (it was {log})"
    put(database, "b")
    database.close()
    assert keys(file) == ["a", "b"]


def without_connections(file: Path) -> SqliteDatabase:
    """A database that this process has opened, with a log, after an error has closed its only connection."""
    opened(file).close()
    database = open_database(f"sqlite:///{file}", durable=False)
    with pytest.raises(ZeroDivisionError), database.read():
        1 / 0  # noqa: B018
    return database


def another_connection(file: Path) -> sqlite3.Connection:
    """A connection of another program; the log that it makes has an inode of its own."""
    file.with_name(f"{len(list(file.parent.iterdir()))}").touch()  # takes the inode of the last log
    connection = sqlite3.connect(file, check_same_thread=False)
    connection.execute("SELECT count(*) FROM ostinato_meta").fetchall()
    return connection


def test_a_log_that_changes_while_a_connection_is_opened_is_no_alarm(file, monkeypatch):
    database, others = without_connections(file), [another_connection(file)]
    connect = sqlite3.connect

    def after_a_change(*given: object, **named: object) -> sqlite3.Connection:
        monkeypatch.undo()
        others.pop().close()
        others.append(another_connection(file))
        return connect(*given, **named)

    monkeypatch.setattr(sqlite3, "connect", after_a_change)
    with database.read():
        pass
    with database.read():
        pass
    database.close()
    others.pop().close()


def test_a_thread_that_opens_while_another_closes_the_last_connection_is_no_alarm(file, monkeypatch):
    database, read = without_connections(file), []

    def look() -> None:
        with database.read():
            read.append(True)

    opening = threading.Thread(target=look)

    class ClosesLast(sqlite3.Connection):
        def close(self) -> None:
            super().close()
            monkeypatch.undo()
            opening.start()
            opening.join(0.2)  # it can only wait

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=ClosesLast))
    with pytest.raises(ZeroDivisionError), database.read():
        1 / 0  # noqa: B018
    opening.join()
    assert read == [True]
    database.close()


CHURN = """
import random, sqlite3, sys
file, seed = sys.argv[1], int(sys.argv[2])
chance = random.Random(seed)
for n in range(150):
    c = sqlite3.connect(file, isolation_level=None, timeout=30)
    try:
        c.execute(chance.choice([
            "SELECT count(*) FROM ostinato_meta", f"INSERT INTO ostinato_meta VALUES ('{seed}-{n}', zeroblob(3000))",
            "PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "PRAGMA journal_mode = DELETE",
            "DELETE FROM ostinato_meta WHERE rowid % 3 = 0",
        ])).fetchall()
    except sqlite3.OperationalError as error:
        assert "locked" in str(error), error
    c.close()
"""


def test_processes_that_come_and_go_are_no_alarm(file):
    """Checkpoints, VACUUM, backups and the last close of others leave file and log as they are."""
    database = opened(file)
    others = [subprocess.Popen([sys.executable, "-c", CHURN, str(file), str(n)]) for n in range(3)]
    done = 0
    while any(other.poll() is None for other in others):
        put(database, f"own-{done}")
        with database.read():
            pass
        database.upkeep()
        done += 1
    assert [other.returncode for other in others] == [0, 0, 0]
    assert done > 0
    database.close()
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_borrowed_connection_is_refused_once_the_file_is_another(file, tmp_path):
    database = opened(file)
    shutil.copyfile(file, tmp_path / "copy.db")
    with closing(sqlite3.connect(file)) as theirs:
        theirs.execute("BEGIN IMMEDIATE")
        os.replace(tmp_path / "copy.db", file)
        with pytest.raises(DatabaseReplaced), database.borrow(theirs):
            pass
        theirs.rollback()
    database.close()
