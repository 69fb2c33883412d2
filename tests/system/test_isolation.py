"""Tasks in processes under real workers, on both databases."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ostinato import Handle, Ostinato
from ostinato.app.tasks import AppTask
from ostinato.service.views import ExecutionView
from tests.system.conftest import SHORT, Process, Workshop, opened
from tests.waiting import eventually

PROGRAM = Path(__file__).parent / "isolated.py"
GONE_WITHIN = 5.0  # seconds; promised


class Isolated(Workshop):
    """A workshop whose workers run `isolated.py`."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.app = _app(url)
        self.app.open(upgrade=True)
        self.processes = []

    def spawn(self, settings: dict[str, object]) -> Process:
        given = {"database_url": self.url, "stop_grace": "1s"} | SHORT | settings
        log = self.folder / f"log-{len(self.processes)}"
        with log.open("wb") as out:
            command = [sys.executable, str(PROGRAM), json.dumps(given)]
            popen = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        process = Process(popen, log)
        self.processes.append(process)
        return process

    def hold(self, *, stubborn: bool = False, **policies: object) -> tuple[Handle, list[int]]:
        """A run that stays, and the processes that it consists of."""
        path = self.folder / f"held-{time.monotonic_ns()}"
        task = self.app.registry.get("holds")
        assert isinstance(task, AppTask)
        handle = task.using(**policies).enqueue(path=str(path), stubborn=stubborn)
        eventually(lambda: path.exists() and len(path.read_text().splitlines()) == 2)
        return handle, [int(line.split()[1]) for line in path.read_text().splitlines()]

    def last(self, handle: Handle) -> ExecutionView:
        """The newest execution of a job that has ended."""
        ended = eventually(lambda: self.history(handle))
        return ExecutionView.of(ended[-1])


def _app(url: str) -> Ostinato:
    from tests.system import isolated

    app = Ostinato("isolated", tasks={}, database_url=url, **SHORT)
    for name in isolated.app.registry.names():
        known = isolated.app.registry.get(name)
        app.registry.add(AppTask(app, known.function, name, {}, known.isolation))
    return app


def seconds_to_end(pids: list[int]) -> float:
    """Wait until none of these processes is alive; return how long that took."""
    begun = time.monotonic()
    eventually(lambda: not any(alive(pid) for pid in pids))
    return time.monotonic() - begun


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def supervisor_of(process: Process) -> int:
    (guardian,) = psutil.Process(process.pid).children()
    (supervisor,) = guardian.children()
    return supervisor.pid


@pytest.fixture
def isolated(database_url: str, tmp_path: Path) -> Iterator[Isolated]:
    yield from opened(Isolated(database_url, tmp_path))


def test_tasks_of_the_main_module_run_in_processes_and_are_accounted_for(isolated: Isolated):
    worker = isolated.start_one()
    job = isolated.enqueue_one("pid")
    execution = isolated.last(job)
    assert execution.status == "completed"
    assert execution.result not in (worker.pid, None)
    assert execution.memory_peak_mb > 5
    assert execution.cpu_time_ms is not None
    thread = isolated.last(isolated.enqueue_one("on_a_thread"))
    assert thread.cpu_time_ms > 0
    assert thread.memory_peak_mb is None


def test_a_cancelled_run_is_settled_when_its_processes_are_gone_and_says_how(isolated: Isolated):
    isolated.start()
    job, pids = isolated.hold(stubborn=True)
    job.cancel(by="ops")
    execution = isolated.last(job)
    assert [pid for pid in pids if alive(pid)] == []
    assert (execution.outcome, execution.stopped) == ("cancelled", "killed")


def test_a_timeout_stops_a_run_with_all_that_it_started(isolated: Isolated):
    isolated.start()

    def in_time() -> bool:
        job, pids = isolated.hold(timeout="3s", retries=0)
        execution = isolated.last(job)
        assert [pid for pid in pids if alive(pid)] == []
        assert (execution.outcome, execution.stopped) == (
            "timed_out",
            "killed",
        )  # a grandchild ignores SIGTERM
        took = execution.duration.total_seconds()
        assert took >= 3
        return took < 3 + 1 + 1.15  # the timeout, the grace, and the promise

    eventually(in_time)  # other programs may delay some of them


def test_a_crash_is_a_failure_that_names_the_signal(isolated: Isolated):
    isolated.start()
    execution = isolated.last(isolated.enqueue_one("crashes", number=int(signal.SIGSEGV)))
    assert (execution.outcome, execution.error_kind, execution.error) == (
        "failed",
        "Killed",
        "Killed by SIGSEGV",
    )


def test_when_a_worker_is_killed_nothing_of_its_runs_goes_on(isolated: Isolated):
    def in_time() -> bool:
        worker = isolated.start_one()
        held = [isolated.hold(stubborn=True) for _ in range(2)]
        pids = [pid for _, ours in held for pid in ours] + [supervisor_of(worker)]
        pids += [child.pid for child in psutil.Process(pids[-1]).children(recursive=True)]
        worker.kill()
        return seconds_to_end(pids) < GONE_WITHIN

    eventually(in_time)  # other programs may delay some of them


def test_a_copy_of_the_worker_does_not_keep_its_runs_alive(isolated: Isolated):
    """Who was forked by the worker has its end of the socket open too: that alone would tell the supervisor nothing."""
    worker = isolated.start_one()
    _, pids = isolated.hold(stubborn=True)
    pids.append(supervisor_of(worker))
    path = isolated.folder / "copy"
    isolated.enqueue("forks_the_worker", path=str(path))
    eventually(lambda: path.exists() and path.read_text().endswith("\n"))
    copy = psutil.Process(int(path.read_text().split()[1]))
    worker.kill()
    try:
        seconds_to_end(pids)
        assert alive(copy.pid)
    finally:
        copy.kill()


def test_when_a_supervisor_is_killed_its_runs_are_lost_and_run_again_under_a_new_one(isolated: Isolated):
    worker = isolated.start_one()
    job, pids = isolated.hold()
    first = supervisor_of(worker)
    psutil.Process(first).kill()
    execution = isolated.last(job)
    assert execution.outcome == "lost"
    assert not any(alive(pid) for pid in pids), "not even what has left its group"
    assert isolated.last(isolated.enqueue_one("pid")).status == "completed"
    assert supervisor_of(worker) != first
    job.cancel()


@pytest.mark.parametrize("signals", [1, 2])
def test_a_worker_that_stops_hands_back_what_it_has_ended(isolated: Isolated, signals: int):
    worker = isolated.start_one(shutdown_grace="300ms" if signals == 1 else "1h")
    job, pids = isolated.hold(stubborn=True)
    pids.append(supervisor_of(worker))
    worker.terminate()
    if signals == 2:
        eventually(lambda: "Stopping" in worker.log)
        worker.signal(signal.SIGINT)
    assert worker.exit_code() == 0
    (live,) = isolated.live()
    assert (live.job_id, live.worker_id, live.attempt, live.losses) == (job.id, None, 0, 0)
    seconds_to_end(pids)


UNGUARDED = """
import sys
from ostinato import Ostinato

app = Ostinato("isolated", database_url=sys.argv[1], poll_interval="1s")

@app.task(isolation="process")
def work() -> int:
    return 1

app.run()
"""


def test_a_program_without_the_main_guard_is_told_and_starts_one_scheduler_only(tmp_path, database_url):
    """A process for tasks runs the program again, to find its tasks."""
    (tmp_path / "program.py").write_text(UNGUARDED)
    app = Ostinato("isolated", database_url=database_url)
    app.open(upgrade=True)
    (handle,) = app.enqueue([app.call("work")], allow_unknown=True)
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "program.py", database_url]
        worker = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        ended = handle.wait(60)
    finally:
        worker.terminate()
        worker.wait(60)
    assert ended.outcome == "failed"
    assert 'put app.run() under if __name__ == "__main__":' in str(ended.error)
    assert "__main__" in (tmp_path / "log").read_text()
    assert len(app.scheduler.workers()) == 1
    app.close()
