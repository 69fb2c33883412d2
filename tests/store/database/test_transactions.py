"""Transactions: commits, rollbacks, visibility and sharing, on both databases."""

import json
import os
import threading
from uuid import uuid4

import pytest

from ostinato.core.errors import StoreError
from ostinato.store.database import Duplicate
from tests.store.database.conftest import add, xs


def test_a_writing_transaction_is_committed_at_its_end(db):
    assert add(db, 1) == 1
    assert xs(db) == [1]


def test_an_exception_rolls_back_and_the_next_transaction_works(db):
    with pytest.raises(ZeroDivisionError), db.write() as tx:  # noqa: PT012
        tx.run("add", id=uuid4(), x=1, note=None)
        raise ZeroDivisionError
    add(db, 2)
    assert xs(db) == [2]


def test_a_swallowed_error_cannot_be_committed(db):
    add(db, 1, "a")
    with pytest.raises(StoreError, match="cannot be committed"), db.write() as tx:  # noqa: PT012
        tx.run("add", id=uuid4(), x=2, note=None)
        with pytest.raises(Duplicate):
            tx.run("add", id=uuid4(), x=3, note="a")
    assert xs(db) == [1]


def test_a_reading_transaction_sees_one_snapshot_and_never_waits_for_a_writer(db):
    add(db, 1)
    with db.read() as tx:
        assert len(tx.rows("all")) == 1
        add(db, 2)
        assert len(tx.rows("all")) == 1
    assert xs(db) == [1, 2]
    with db.write() as tx:
        tx.run("add", id=uuid4(), x=3, note=None)
        assert xs(db) == [1, 2]


def test_a_reading_transaction_cannot_write(db):
    with pytest.raises(StoreError), db.read() as tx:
        tx.run("add", id=uuid4(), x=1, note=None)
    assert xs(db) == []


def test_what_waits_for_the_commit_is_called_after_it_and_not_after_a_rollback(db):
    called = []
    with db.write() as tx:
        tx.run("add", id=uuid4(), x=1, note=None)
        tx.after_commit(lambda: called.append(xs(db)))
    assert called == [[1]]
    with pytest.raises(ZeroDivisionError), db.write() as tx:  # noqa: PT012
        tx.after_commit(lambda: called.append("wrong"))
        raise ZeroDivisionError
    assert called == [[1]]


def test_threads_share_a_database(db):
    threads = [threading.Thread(target=lambda i=i: [add(db, 10 * i + k) for k in range(10)]) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert xs(db) == list(range(80))


def test_a_closed_database_opens_again_when_it_is_used(db):
    add(db, 1)
    db.close()
    assert xs(db) == [1]


def test_the_child_of_a_fork_has_connections_of_its_own(db):
    add(db, 1)
    assert xs(db) == [1]
    reading, writing = os.pipe()
    with db.write() as tx:
        tx.run("add", id=uuid4(), x=2, note=None)
        child = os.fork()
        if child == 0:
            os.write(writing, json.dumps(xs(db)).encode())
            os._exit(0)
        assert os.read(reading, 100) == b"[1]"
        os.waitpid(child, 0)
    assert xs(db) == [1, 2]
