"""`command` and `python` under real workers: every way to stop a program, and all that it may do meanwhile."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ostinato import Handle
from ostinato.core.payload import encode
from ostinato.core.schedule import Once
from ostinato.options import define
from ostinato.service.views import ExecutionView
from ostinato.store.logs import LogLine
from tests.system.conftest import SHORT, Workshop, opened
from tests.system.workshop import make_app
from tests.waiting import PATIENCE, eventually

ALLOWED = {"allow_commands": True, "allow_shell": True, "python_prefixes": "called"}
WORKER = ALLOWED | {"stop_grace": "1s"}
MIB = 1024 * 1024
GONE_WITHIN = 10.0  # seconds, on a busy machine

# Writes its pid and that of a child in a session of its own, whose parent has gone, into a file; then both stay.
HOLDS = """
import os, signal, sys, time
path, stubborn = sys.argv[1], sys.argv[2] == "stubborn"
if stubborn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
def note():
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\\n")
note()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        note()
        time.sleep(600)
    os._exit(0)
if sys.argv[2] == "leaves":
    while len(open(path).readlines()) < 2:
        time.sleep(0.01)
else:
    time.sleep(600)
"""


class Commands(Workshop):
    """A workshop where programs may be run."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.app = make_app(database_url=url, **SHORT, **ALLOWED)
        self.app.open(upgrade=True)
        self.processes = []

    def put(self, task: str = "command", policies: dict[str, Any] | None = None, **args: Any) -> Handle:
        definition = define(task, encode(args), Once(self.app.now()), policies or {}, self.app.name, 0)
        (handle,) = self.app.put([definition])
        return handle

    def run(self, *argv: str, policies: dict[str, Any] | None = None, **args: Any) -> ExecutionView:
        return self.put(policies=policies, argv=list(argv), **args).wait(PATIENCE)

    def hold(self, how: str = "stays", **policies: Any) -> tuple[Handle, list[int]]:
        """A program that stays, and its processes."""
        path = self.folder / f"held-{time.monotonic_ns()}"
        handle = self.put(policies=policies, argv=[sys.executable, "-c", HOLDS, str(path), how])
        eventually(lambda: path.exists() and len(path.read_text().splitlines()) == 2)
        return handle, [int(line) for line in path.read_text().splitlines()]

    def log(self, ended: ExecutionView, stream: str = "") -> list[str]:
        lines, after = list[LogLine](), 0
        while page := self.app.scheduler.executions.log(ended.id, after=after, limit=5000).lines:
            lines, after = lines + list(page), page[-1].number
        return [line.text for line in lines if not stream or line.stream == stream]


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if _lives(pid)]


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """With one worker, for tests that leave it alone."""
    folder = tmp_path_factory.mktemp("commands")
    workshop = Commands(f"sqlite:///{folder}/ostinato.db", folder)
    os.environ["SECRET_A_PASSWORD"] = "swordfish"  # of the worker's environment
    workshop.start(**WORKER)
    del os.environ["SECRET_A_PASSWORD"]
    yield from opened(workshop)


@pytest.fixture
def fresh(database_url: str, tmp_path: Path) -> Iterator[Commands]:
    yield from opened(Commands(database_url, tmp_path))


# -- what it gets, and what it says


def test_a_program_is_told_what_it_is_and_gets_no_more_of_the_environment_than_is_allowed(commands):
    ended = commands.run("env", env={"MORE": "a b"}, secrets={"P": "env:SECRET_A_PASSWORD"})
    variables = dict(line.split("=", 1) for line in commands.log(ended))
    assert ended.result["exit_code"] == 0
    assert variables["OSTINATO_RUN_JOB"] == str(ended.job_id)
    assert variables["OSTINATO_RUN_KEY"] == f"sched-{ended.job_id}-n1"
    assert variables["OSTINATO_RUN_ATTEMPT"] == "0"
    assert variables["OSTINATO_RUN_DUE_AT"] == ended.due_at.isoformat()
    assert (variables["MORE"], variables["P"]) == ("a b", "swordfish")
    assert "SECRET_A_PASSWORD" not in variables
    assert "swordfish" not in str(commands.app.scheduler.jobs.get(ended.job_id))


def test_stdin_folder_and_streams(commands, tmp_path):
    ended = commands.run("sh", "-c", "cat; pwd; echo oops >&2", stdin="one\ntwo\n", cwd=str(tmp_path))
    assert commands.log(ended, "stdout") == ["one", "two", str(tmp_path)]
    assert commands.log(ended, "stderr") == ["oops"]


def test_a_program_that_does_not_read_its_input(commands):
    assert commands.run("true", stdin="x" * 200_000).status == "completed"


def test_no_shell_reads_the_arguments(commands):
    ended = commands.run("echo", "$HOME; ls", "*", "{{ due_at }}")
    assert commands.log(ended) == ["$HOME; ls * {{ due_at }}"]


def test_a_script_for_a_shell_where_that_is_allowed(commands):
    ended = commands.put(script="echo $((20 + 3)) | tr 2 4", shell=True).wait(PATIENCE)
    assert commands.log(ended) == ["43"]


@pytest.mark.parametrize(
    ("code", "expected", "state"), [(0, [0], "completed"), (3, [0], "failed"), (3, [2, 3], "completed")]
)
def test_exit_codes(commands, code, expected, state):
    ended = commands.run("sh", "-c", f"exit {code}", exit_codes=expected)
    assert ended.status == state
    if state == "failed":
        assert "exit code 3; expected was 0." in str(ended.error)
    else:
        assert ended.result["exit_code"] == code


def test_a_program_that_a_signal_ends(commands):
    ended = commands.run("sh", "-c", "kill -9 $$")
    assert "SIGKILL" in str(ended.error)


def test_how_far_it_is_is_its_last_line_and_what_it_wrote_is_counted(commands, tmp_path):
    path = tmp_path / "go on"
    script = f"echo copying; echo 'shop.sql 40%' >&2; until [ -e '{path}' ]; do sleep 0.05; done; printf end; exit 3"
    handle = commands.put(script=script, shell=True)

    def progress() -> dict[str, Any]:
        return next((json.loads(live.progress) for live in commands.live() if live.progress), {})

    eventually(lambda: progress().get("message") == "shop.sql 40%")
    assert progress() == {
        "done": 2, "message": "shop.sql 40%", "counters": {"output_lines": 2, "output_bytes": 21},
    }  # fmt: skip
    path.touch()
    ended = handle.wait(PATIENCE)
    assert (ended.status, ended.exit_code) == ("failed", 3)
    assert ended.counters == {"output_lines": 3, "output_bytes": 24}


@pytest.mark.parametrize(("args", "word"), [({}, "No such file"), ({"cwd": "/no/such/folder"}, "no directory")])
def test_what_cannot_be_started(commands, args, word):
    ended = commands.run("true" if args else "no-such-program", **args)
    assert ended.status == "failed"
    assert word in str(ended.error)


def test_ten_mebibytes_of_output_are_kept_and_nobodys_memory_grows(commands):
    process = psutil.Process(commands.processes[0].pid)
    before = process.memory_info().rss
    script = "head -c 10000000 /dev/zero | tr '\\0' x | fold -w 499; echo; echo the end"
    handle = commands.put(script=script, shell=True)
    most = before
    while not commands.history(handle):
        most = max(most, process.memory_info().rss)
        time.sleep(0.02)
    ended = handle.wait(PATIENCE)
    assert ended.status == "completed"
    lines = commands.log(ended)
    assert sum(map(len, lines)) >= 10_000_000
    assert lines[-1] == "the end"
    assert most - before < 100 * MIB


def test_more_output_than_is_kept_is_cut_and_the_program_ends_all_the_same(commands):
    long = "head -c 30000000 /dev/zero | tr '\\0' y | fold -w 499"
    ended = commands.put(script=long, shell=True).wait(PATIENCE)
    assert ended.status == "completed"
    assert sum(map(len, commands.log(ended))) < 11 * MIB
    assert ended.counters["output_bytes"] > 30_000_000


def test_whatever_bytes_it_writes_are_kept_as_text(commands):
    odd = "printf 'a\\000b\\377c\\033[31m\\n'; head -c 200000 /dev/zero | tr '\\0' z; head -c 100000 /dev/urandom"
    ended = commands.put(script=odd, shell=True).wait(PATIENCE)
    lines = commands.log(ended)
    assert ended.status == "completed"
    assert lines[0].startswith("a\\x00b")
    assert sum(line.count("z") for line in lines) >= 200_000


def test_a_limit_of_output_holds_for_the_program(commands):
    endless = "yes $(head -c 1000 /dev/zero | tr '\\0' x)"
    ended = commands.put(script=endless, shell=True, policies={"output_limit_mb": 1}).wait(PATIENCE)
    assert (ended.error_kind, ended.error) == ("OutputLimit", "1 MB")


def test_a_limit_of_cpu_holds_for_the_program(commands):
    ended = commands.run(sys.executable, "-c", "while True: pass", policies={"cpu_limit": "1s"})
    assert (ended.error_kind, ended.error) == ("CpuLimit", "1s")


def test_a_limit_of_memory_holds_for_the_program(commands):
    takes = "try: x = bytearray(300_000_000)\nexcept MemoryError: raise SystemExit(7)"
    ended = commands.run(sys.executable, "-c", takes, policies={"memory_limit_mb": 100})
    assert ended.status == "failed"
    assert "exit code 7" in str(ended.error) or ended.error_kind == "MemoryLimit"


# -- every way to stop one


@pytest.mark.parametrize("how", ["stays", "stubborn"])
def test_cancel_stops_it_with_all_that_it_has_started(commands, how):
    handle, pids = commands.hold(how)
    assert len(alive(pids)) == 2
    handle.cancel()
    assert handle.wait(PATIENCE).status == "cancelled"
    assert alive(pids) == []


def test_it_may_clean_up_when_it_is_told_to_stop(commands, tmp_path):
    path = tmp_path / "begun"
    script = f"trap 'echo cleaned; exit 0' TERM; touch {path}; while :; do sleep 0.05; done"
    handle = commands.put(script=script, shell=True)
    eventually(path.exists)
    handle.cancel()
    ended = handle.wait(PATIENCE)
    assert (ended.status, commands.log(ended, "stdout")) == ("cancelled", ["cleaned"])


def test_a_timeout_stops_it(commands):
    handle, pids = commands.hold(timeout="4s")
    ended = handle.wait(PATIENCE)
    assert (ended.outcome, alive(pids)) == ("timed_out", [])


def test_what_it_leaves_behind_is_stopped_when_it_ends(commands):
    handle, pids = commands.hold("leaves")
    assert handle.wait(PATIENCE).status == "completed"
    assert alive(pids) == []


def test_a_worker_that_is_told_to_stop_stops_it_and_hands_it_back(fresh):
    worker = fresh.start_one(**WORKER, shutdown_grace="0s")
    handle, pids = fresh.hold()
    worker.terminate()
    assert worker.exit_code() == 0
    assert alive(pids) == []
    (live,) = fresh.live()
    assert (live.job_id, live.attempt, live.worker_id) == (handle.id, 0, None)


def test_a_worker_that_is_killed_takes_it_along(fresh):
    worker = fresh.start_one(**WORKER)
    _, pids = fresh.hold(how="stubborn")
    worker.kill()
    eventually(lambda: alive(pids) == [], GONE_WITHIN)


@pytest.mark.parametrize("who", ["the supervisor", "its guardian"])
def test_a_supervisor_that_is_killed_takes_the_program_along(fresh, who):
    worker = fresh.start_one(**WORKER)
    _, pids = fresh.hold(how="stubborn")
    (guardian,) = (each for each in psutil.Process(worker.pid).children() if "supervisor" in " ".join(each.cmdline()))
    (supervisor,) = guardian.children()
    (supervisor if who == "the supervisor" else guardian).kill()
    eventually(lambda: alive(pids) == [], GONE_WITHIN)


# -- disabled means refused


def test_a_worker_where_commands_are_off_refuses_what_was_made_elsewhere(fresh):
    fresh.start_one()
    ended = fresh.put(argv=["true"], policies={"retries": 3}).wait(PATIENCE)
    assert (ended.status, ended.attempt) == ("failed", 0)
    assert "OSTINATO_ALLOW_COMMANDS" in str(ended.error)


# -- python


@pytest.mark.parametrize(
    ("function", "args", "state", "said"),
    [
        ("adds", {"a": 1, "b": 2}, "completed", 3),
        ("waits", {}, "completed", "waited"),
        ("counts", {}, "completed", None),
        ("knows", {}, "completed", True),
        ("adds", {"a": 1}, "failed", "missing 'b'"),
        ("nothing", {}, "failed", "There is no function nothing"),
        ("getcwd", {}, "failed", "name a function where it is defined"),
        ("fails", {}, "failed", "out of cheese"),
    ],
)
def test_a_function_of_an_allowed_module(commands, function, args, state, said):
    ended = commands.put("python", function=f"called:{function}", args=args).wait(PATIENCE)
    assert ended.status == state, ended.error
    if function == "counts":
        assert ended.counters == {"letters": 2, "output_lines": 1, "output_bytes": 6}
    assert ended.result == said if state == "completed" else said in str(ended.error)
