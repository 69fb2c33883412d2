"""The database is moved, deleted, replaced or restored under real workers."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from ostinato import Ostinato
from ostinato.store import backup
from tests.servers import PostgresServer
from tests.system.conftest import Workshop
from tests.waiting import PATIENCE, eventually

SHOP = """
import asyncio, os
from ostinato import Ostinato
app = Ostinato("shop")

def mark(what):
    with open("marks", "a") as file:
        file.write(f"{what} {os.getpid()}\\n")

@app.task(every="1s", first_run="now")
def tick():
    mark("tick")

@app.task(every="1h", first_run="now")
async def long():
    mark("long")
    await asyncio.sleep(600)
"""
PROGRAM = str(Path(sys.executable).with_name("ostinato"))
QUICK = {"OSTINATO_LEASE_SECONDS": "3", "OSTINATO_SHUTDOWN_GRACE": "1s"}
STOPS_WITHIN = 15.0  # seconds


class Shop:
    """A folder with an app, its SQLite file, and the worker processes on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "shop.db"
        (folder / "shop.py").write_text(SHOP)
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        environment = os.environ | QUICK | {"OSTINATO_DATABASE_URL": f"sqlite:///{self.file}"}
        with (self.folder / f"log-{len(self.workers)}").open("wb") as out:
            worker = subprocess.Popen(
                [PROGRAM, "worker", "--app", "shop:app"],
                cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip
        self.workers.append(worker)
        eventually(lambda: self.marks(worker, "tick") or worker.poll() is not None)
        assert worker.poll() is None
        return worker

    def marks(self, worker: subprocess.Popen[bytes], what: str) -> int:
        marks = self.folder / "marks"
        lines = marks.read_text().splitlines() if marks.exists() else []
        return lines.count(f"{what} {worker.pid}")

    def command(self, *arguments: str) -> str:
        done = subprocess.run(
            [PROGRAM, *arguments, "--database", f"sqlite:///{self.file}"],
            check=True, capture_output=True, text=True, cwd=self.folder,
        )  # fmt: skip
        return done.stdout

    def stopped(self, worker: subprocess.Popen[bytes]) -> str:
        """The last words of a worker that has found another database."""
        assert worker.wait(STOPS_WITHIN) == 5
        log = (self.folder / f"log-{self.workers.index(worker)}").read_text()
        assert "Traceback" not in log, log
        return log.splitlines()[-1]

    def close(self) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                worker.kill()
                worker.wait(PATIENCE)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    shop.close()


def rows_of(file: Path) -> int:
    """How many executions a file has, which must be whole."""
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return connection.execute("SELECT count(*) FROM ostinato_executions").fetchone()[0]


def mv(shop: Shop) -> None:
    for beside in ("", "-wal", "-shm"):
        os.rename(f"{shop.file}{beside}", f"{shop.folder}/moved.db{beside}")


def rm(shop: Shop) -> None:
    for beside in ("", "-wal", "-shm"):
        os.unlink(f"{shop.file}{beside}")


def cp_over(shop: Shop) -> None:
    """As `cp --remove-destination`, rsync and editors do."""
    shutil.copyfile(shop.folder / "backup.db", shop.folder / "new.db")
    os.replace(shop.folder / "new.db", shop.file)


def restore(shop: Shop) -> None:
    rm(shop)
    shop.command("db", "restore", str(shop.folder / "backup.db"))


@pytest.mark.parametrize("harm", [mv, rm, cp_over, restore])
def test_workers_stop_and_say_so_when_the_file_is_another(shop: Shop, harm: Callable[[Shop], None]):
    workers = [shop.start(), shop.start()]
    shop.command("db", "backup", str(shop.folder / "backup.db"))
    harm(shop)
    ticked = [shop.marks(worker, "tick") for worker in workers]
    for worker in workers:
        assert "was moved, deleted or replaced while it was in use" in shop.stopped(worker)
    late = sum(shop.marks(worker, "tick") for worker in workers) - sum(ticked)
    assert late <= 1, "one claim may have been under way"
    if harm is mv:
        assert rows_of(shop.folder / "moved.db") > 0
    if harm is rm:
        assert not shop.file.exists()
    else:
        assert rows_of(shop.folder / "backup.db") > 0
    fresh = shop.start()  # on what is there now
    eventually(lambda: shop.marks(fresh, "tick") >= 2)
    fresh.send_signal(signal.SIGTERM)
    assert fresh.wait(PATIENCE) == 0
    assert rows_of(shop.file) >= 2
    assert "No problems found." in shop.command("db", "check")


def test_a_worker_that_starts_on_a_new_file_loses_no_commit_to_the_old_worker(shop: Shop):
    """The old one is asleep while its file is replaced, and wakes up beside the new one."""
    old = shop.start()
    with shop.file.with_name("shop.db.lock").open("ab") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # asleep in the middle of a write it would keep all others out
        os.kill(old.pid, signal.SIGSTOP)
    mv(shop)
    new = shop.start()
    eventually(lambda: shop.marks(new, "tick") >= 2)
    ticked = shop.marks(old, "tick")
    os.kill(old.pid, signal.SIGCONT)
    assert "was moved, deleted or replaced" in shop.stopped(old)
    assert shop.marks(old, "tick") <= ticked + 1
    more = shop.marks(new, "tick")
    eventually(lambda: shop.marks(new, "tick") >= more + 2)
    new.send_signal(signal.SIGTERM)
    assert new.wait(PATIENCE) == 0
    assert rows_of(shop.file) >= more
    assert rows_of(shop.folder / "moved.db") >= 1


def test_nothing_alarms_a_worker_while_others_come_and_go(shop: Shop):
    worker = shop.start()
    for n in range(3):
        shop.command("db", "backup", str(shop.folder / f"copy-{n}.db"))
        shop.command("doctor", "--json")
        with closing(sqlite3.connect(shop.file)) as theirs:
            theirs.execute("VACUUM")
            theirs.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    ticked = shop.marks(worker, "tick")
    eventually(lambda: shop.marks(worker, "tick") > ticked)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE) == 0


# -- PostgreSQL


def copied(server: PostgresServer, source: str, target: str) -> None:
    subprocess.run(["cp", "-a", str(server.folder / source), str(server.folder / target)], check=True)


def test_postgresql_restored_to_eleven_seconds_ago(private_workshop: Workshop, private_postgres: PostgresServer):
    """The server comes back as it was before: the worker notices, claims nothing by its old lease, and goes on."""
    shop = private_workshop
    worker = shop.start_one(lease="20s")
    shop.enqueue_one("quick")
    shop.wait_for_marks("start")
    old = shop.worker_of(worker).id
    private_postgres.stop()
    copied(private_postgres, "data", "before")
    private_postgres.start()
    time.sleep(11)
    private_postgres.stop("immediate")
    shutil.rmtree(private_postgres.folder / "data")
    copied(private_postgres, "before", "data")
    private_postgres.start()
    eventually(lambda: shop.events("database.went_back"))
    (event,) = shop.events("database.went_back")
    assert json.loads(event.data)["seconds"] > 5
    job = shop.enqueue_one("quick")
    eventually(lambda: shop.results(job) == ["completed"])
    (ended,) = shop.history(job)
    assert ended.worker_id != old
    assert [each.worker_id for each in shop.events("worker.started")].count(ended.worker_id) == 1


def test_workers_stop_when_postgresql_has_another_generation(private_workshop: Workshop, tmp_path: Path):
    """Emptied, and filled again from a backup: a worker that went on would run what ran already."""
    worker = private_workshop.start_one()
    app: Ostinato = private_workshop.app
    database = app.parts.store.database
    backup.backup(database, tmp_path / "copy.db", lambda *_: None)
    with psycopg.connect(private_workshop.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA ostinato CASCADE")
    backup.restore(tmp_path / "copy.db", database, lambda *_: None)
    assert worker.exit_code() != 0
    assert "is another database than the one that this process has opened" in worker.log
