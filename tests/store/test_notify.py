"""Notifications reach every listener, across threads, processes and restarts."""

import os
import queue
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest

from ostinato.store import notify
from ostinato.store.database import open_database
from tests.waiting import PATIENCE


class Heard:
    """The notifications of a listener."""

    def __init__(self, database) -> None:
        self.notifications = queue.Queue()
        self.listener = database.listen(lambda: self.notifications.put("notified"))

    def something(self):
        return self.notifications.get(timeout=PATIENCE) == "notified"

    def forget(self):
        while not self.notifications.empty():
            self.notifications.get()


@pytest.fixture
def db(database_url):
    database = open_database(database_url)
    yield database
    database.close()


@pytest.fixture
def heard(db):
    heard = listening(db)
    yield heard
    heard.listener.close()


@pytest.fixture
def lite():
    """A database in a folder with a short name: the address of a socket holds about 100 bytes."""
    with tempfile.TemporaryDirectory(prefix="notify-") as folder:
        database = open_database(f"sqlite:///{folder}/a.db")
        yield database
        database.close()


def listening(database):
    heard = Heard(database)
    if database.name.startswith("postgresql"):
        assert heard.something()  # connected
    return heard


def sockets_of(database):
    return sorted(notify.socket_folder(Path(database.name)).iterdir())


def test_a_ring_is_heard(db, heard):
    db.notify()
    assert heard.something()


def test_every_listener_hears_it(db, heard):
    second = listening(db)
    db.notify()
    assert heard.something()
    assert second.something()
    second.listener.close()


def test_a_transaction_notifies_with_its_commit_and_once(db, heard):
    with db.write() as tx:
        tx.notify()
        tx.notify()
        assert heard.notifications.empty()
    assert heard.something()
    assert heard.notifications.empty()


def test_a_transaction_that_is_rolled_back_does_not_ring(db, heard):
    with pytest.raises(ZeroDivisionError), db.write() as tx:  # noqa: PT012
        tx.notify()
        raise ZeroDivisionError
    with db.write():
        pass
    second = listening(db)  # no notification was on its way to the first when this one was ready
    db.notify()
    assert second.something()
    assert heard.something()
    assert heard.notifications.empty()
    second.listener.close()


def test_after_close_nothing_is_heard(db):
    heard = listening(db)
    heard.listener.close()
    db.notify()
    assert heard.notifications.empty()


def test_a_listener_may_close_itself_when_it_rings(db):
    done = queue.Queue()
    box = []
    box.append(db.listen(lambda: box and (box[0].close(), done.put(1))))
    db.notify()
    assert done.get(timeout=PATIENCE)


def test_rings_of_a_transaction_of_somebody_elses_are_heard_after_its_commit(db, heard, database_url):
    sqlite = database_url.startswith("sqlite")
    theirs = sqlite3.connect(db.name) if sqlite else psycopg.connect(database_url)
    with db.borrow(theirs) as tx:
        tx.run(db.dialect.statement("CREATE TABLE one (x bigint)" if sqlite else "CREATE TEMP TABLE one (x bigint)"))
        tx.notify()
    if sqlite:
        assert heard.something()  # a commit will follow
    heard.forget()
    theirs.commit()
    assert heard.something()
    theirs.close()


@pytest.mark.system
def test_a_ring_of_another_process_is_heard(heard, database_url):
    code = "import sys; from ostinato.store.database import open_database; open_database(sys.argv[1]).notify()"
    subprocess.run([sys.executable, "-c", code, database_url], check=True)
    assert heard.something()


def test_the_socket_is_private_and_deleted_with_its_listener(lite):
    heard = Heard(lite)
    (path,) = sockets_of(lite)
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.name.startswith(f"{os.getpid()}-")
    heard.listener.close()
    assert sockets_of(lite) == []


def test_the_socket_of_a_dead_process_is_deleted(lite):
    heard = Heard(lite)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
        dead.bind(str(notify.socket_folder(Path(lite.name)) / "1-dead.sock"))
    assert len(sockets_of(lite)) == 2
    lite.notify()
    assert heard.something()
    assert len(sockets_of(lite)) == 1
    heard.listener.close()


def test_a_full_socket_does_not_block_a_notification(lite):
    notify.socket_folder(Path(lite.name)).mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(str(notify.socket_folder(Path(lite.name)) / "1-deaf.sock"))
        for _ in range(2000):
            lite.notify()
    assert True  # we came here


def test_where_the_path_is_too_long_for_a_socket_the_file_is_watched(tmp_path):
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    lite = open_database(f"sqlite:///{folder}/a.db")
    heard = Heard(lite)
    assert heard.something()  # the first check
    with lite.write() as tx:
        tx.run(lite.dialect.statement("CREATE TABLE one (x)"))
    assert heard.something()
    assert not notify.socket_folder(Path(lite.name)).exists()
    heard.listener.close()


@pytest.mark.system
def test_a_listener_comes_back_after_a_restart_of_the_server_and_rings(private_postgres):
    pg = open_database(private_postgres.url())
    heard = listening(pg)
    private_postgres.restart()
    assert heard.something()  # after a new connection: a notification may have been missed
    pg.notify()
    assert heard.something()
    heard.listener.close()
    pg.close()


def test_schemas_of_one_database_have_their_own_notifications(postgres_url):
    one, two = (open_database(postgres_url, schema=name) for name in ("one", "two"))
    heard_one, heard_two = listening(one), listening(two)
    two.notify()
    assert heard_two.something()
    one.notify()
    assert heard_one.something()
    assert heard_one.notifications.empty()
    for done in (heard_one.listener, heard_two.listener, one, two):
        done.close()
