"""PostgreSQL restarted, away, and frozen under working processes (G10, G11, G14)."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import psutil

from ostinato import Handle
from ostinato.core.errors import StoreUnavailable
from tests.servers import PostgresServer
from tests.system.conftest import Workshop
from tests.waiting import eventually

AWAY_FOR = 4.0  # seconds: two leases


class Load:
    """Enqueues all the time, and remembers what was acknowledged."""

    def __init__(self, workshop: Workshop) -> None:
        self.acknowledged: list[Handle] = []
        self._workshop = workshop
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._over.wait(0.01):
            try:
                self.acknowledged += self._workshop.enqueue("quick", 5)
            except StoreUnavailable:
                continue

    @contextmanager
    def on(self):
        self._thread.start()
        try:
            yield self
        finally:
            self._over.set()
            self._thread.join()


def completed(workshop: Workshop) -> set[object]:
    return {row.job_id for row in workshop.app.parts.store.history.page(100_000) if row.outcome == "completed"}


def test_g3_a_restart_of_the_server_under_load_loses_nothing(
    private_workshop: Workshop, private_postgres: PostgresServer
):
    private_workshop.start(2)
    with Load(private_workshop).on() as load:
        for _ in range(2):
            seen = len(load.acknowledged)
            eventually(lambda seen=seen: len(load.acknowledged) > seen + 100)
            private_postgres.restart("immediate")
    ids = {handle.id for handle in load.acknowledged}
    eventually(lambda: ids <= completed(private_workshop))
    eventually(lambda: private_workshop.live() == [])
    assert private_workshop.events("worker.lost") == []


def test_g11_a_server_that_is_away_is_waited_for(
    private_workshop: Workshop, private_postgres: PostgresServer, record_property
):
    workers = private_workshop.start(2)
    job = private_workshop.enqueue_one("holds")
    private_workshop.wait_for_marks("start")
    private_postgres.stop()
    spent = [cpu(worker.pid) for worker in workers]
    time.sleep(AWAY_FOR)
    private_workshop.release()  # it ends while nobody can be told
    used = max(cpu(worker.pid) - before for worker, before in zip(workers, spent, strict=True))
    record_property("cpu_seconds", used)
    assert used < AWAY_FOR / 4  # they do not spin
    assert all(worker.popen.poll() is None for worker in workers)
    private_postgres.start()
    eventually(lambda: private_workshop.results(job) == ["completed"])
    others = private_workshop.enqueue("quick", 20)
    private_workshop.all_done([job, *others])
    assert len(private_workshop.marks("end")) == 1
    eventually(lambda: all("Database available again" in worker.log for worker in workers))
    for worker in workers:
        assert (worker.log.count("Database unavailable"), worker.log.count("Database available again")) == (
            1,
            1,
        ), worker.log


def test_g11_a_server_that_stands_still_takes_nobodys_work(
    private_workshop: Workshop, private_postgres: PostgresServer
):
    private_workshop.start(2)
    job = private_workshop.enqueue_one("holds")
    private_workshop.wait_for_marks("start")
    with frozen(private_postgres):
        time.sleep(AWAY_FOR)
    time.sleep(AWAY_FOR)  # sweeps enough to take it, were they to
    assert private_workshop.events("worker.lost") == []
    private_workshop.release()
    others = private_workshop.enqueue("quick", 20)
    private_workshop.all_done([job, *others])
    assert private_workshop.results(job) == ["completed"]


def test_a_worker_can_be_stopped_while_the_server_is_away(private_workshop: Workshop, private_postgres: PostgresServer):
    worker = private_workshop.start_one(shutdown_grace="100ms")
    private_workshop.enqueue_one("holds")
    private_workshop.wait_for_marks("start")
    with stopped(private_postgres):
        worker.terminate()
        assert worker.exit_code(40) == 0
    private_workshop.start_one()
    private_workshop.release()
    eventually(lambda: private_workshop.live() == [])  # found lost, and run again


def cpu(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


@contextmanager
def stopped(server: PostgresServer):
    server.stop()
    try:
        yield
    finally:
        server.start()


@contextmanager
def frozen(server: PostgresServer):
    """The server's processes stand still; its sockets stay open."""
    postmaster = psutil.Process(int((Path(server.folder) / "data/postmaster.pid").read_text().split()[0]))
    processes = [postmaster, *postmaster.children(recursive=True)]
    for process in processes:
        os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process.pid, signal.SIGCONT)
