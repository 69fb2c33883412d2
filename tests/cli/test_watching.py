"""What refreshes, on a real terminal: `--watch` and `top`; and tables that fit it."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest

from ostinato import Ostinato
from ostinato.cli import verbs
from tests.waiting import PATIENCE

pytestmark = pytest.mark.system

OURS = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
COMMAND = [sys.executable, "-c", "from ostinato.program import main; main()"]


class Terminal:
    """A command on a pseudo-terminal."""

    def __init__(self, width: int, *arguments: str) -> None:
        others = {name: value for name, value in os.environ.items() if name not in OURS}
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
            # Not the process's own environment: in it readline, if it was imported, sets COLUMNS behind Python's back.
            os.execve(COMMAND[0], [*COMMAND, *arguments], others | {"TERM": "xterm"})
        self.said = ""

    def read_until(self, pattern: str) -> str:
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, self.said, re.DOTALL):
            assert time.monotonic() < deadline, f"no {pattern!r} in:\n{self.said}"
            self._read()
        return self.said

    def _read(self) -> bool:
        ready, _, _ = select.select([self._fd], [], [], 1)
        if not ready:
            return True
        try:
            self.said += os.read(self._fd, 65536).decode()
        except OSError:  # it has ended
            return False
        return True

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def end(self) -> int:
        while self._read():
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self._fd)
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def some_jobs(sqlite_url):
    app = Ostinato(database_url=sqlite_url)
    app.register("work", lambda: None)
    for n in range(3):
        app.registry.get("work").using(key=f"job-{n}", name="a name that is rather long " * 3).enqueue()
    yield sqlite_url
    app.close()


def lines(said: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said).replace("\r", "").splitlines()


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_table_fits_the_terminal(some_jobs, width):
    terminal = Terminal(width, "job", "list", "--database", some_jobs)
    assert terminal.end() == 0
    shown = lines(terminal.said)
    assert shown[0].startswith("Job ")
    assert sum("job-" in line for line in shown) == 3
    assert max(map(len, shown)) <= width


def test_watch_refreshes_until_it_is_interrupted(some_jobs):
    terminal = Terminal(80, "job", "list", "--watch", "--database", some_jobs)
    terminal.read_until("job-2.*job-0.*job-2.*job-0")
    terminal.interrupt()
    assert terminal.end() == 0
    assert "Traceback" not in terminal.said


def test_watch_as_json_is_a_line_each_time(some_jobs):
    terminal = Terminal(80, "job", "list", "--watch", "--json", "--database", some_jobs)
    terminal.read_until(r'\{"jobs".*\n\{"jobs"')
    terminal.interrupt()
    assert terminal.end() == 0


def test_an_interrupt_that_a_callback_of_sqlite_swallows_ends_it_all_the_same(monkeypatch):
    """What is raised inside a function that SQLite calls never reaches whoever asked."""
    asked = []

    def ask():
        asked.append(True)
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        return {}

    monkeypatch.setattr(verbs, "_lines", lambda ask: [ask() for _ in range(3)])
    verbs.live(SimpleNamespace(as_json=True), ask, lambda _: None)
    assert len(asked) == 1


def test_top(some_jobs):
    terminal = Terminal(100, "top", "--database", some_jobs)
    terminal.read_until("Press Ctrl-C to quit.*Workers: 0.*default.*job-2")
    terminal.interrupt()
    assert terminal.end() == 0
    assert "Traceback" not in terminal.said


def test_a_pipe_that_is_closed_early_is_no_error(some_jobs):
    command = [*COMMAND, "job", "list", "--database", some_jobs]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(PATIENCE) == 0
