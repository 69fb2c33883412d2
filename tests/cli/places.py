"""A place where commands do something: a database with a real server beside it, and one of the two ways to ask."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.acceptance.server import USUAL
from tests.waiting import eventually

T = TypeVar("T")


AN_APP = """
import threading
from ostinato import Context, Ostinato

app = Ostinato()

@app.task
def fine(n: int = 1, who: str = "") -> int:
    print("working")
    return n + 1

@app.task
def cron_line(command: str, shell: bool, stdin: str = "", env: dict[str, str] | None = None) -> None: ...

@app.task
def fails() -> None:
    raise ValueError("out of \\x1b[31mcheese")

@app.task
async def hang(ctx: Context) -> None:
    import asyncio
    ctx.progress(1, 3, "at it")
    await asyncio.Event().wait()
"""


class Place:
    """A server process with a worker, on a database; and how commands reach it."""

    def __init__(self, folder: Path, mode: str, environment: dict[str, str]) -> None:
        self.mode, self.environment, self.folder = mode, environment, folder
        (folder / "shop.py").write_text(AN_APP)
        self._log = folder / "server.log"  # not a pipe: one that nobody reads fills up, and the server stands still
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from ostinato.program import main; main()", "serve", "--app", "shop:app",
                 "--migrate", "--port", "0"],
                cwd=folder, stdout=log, stderr=subprocess.STDOUT,
                env=os.environ | USUAL | environment,
            )  # fmt: skip
        try:
            self.server = eventually(self._address)
            eventually(self._at_work)
        except BaseException:
            self.close()
            raise

    @property
    def flags(self) -> tuple[str, ...]:
        """What leads a command here."""
        return ("--server", self.server) if self.mode == "server" else ()

    def _address(self) -> str | None:
        """Where it listens, once it says so."""
        assert self._process.poll() is None, f"the server ended:\n{self._log.read_text()}"
        found = re.search(r"http=(http://\S+)", self._log.read_text())
        return found and found[1]

    def _at_work(self) -> bool:
        """Whether its worker has come to work: before that, others do not know its tasks."""
        try:
            with urlopen(f"{self.server}/api/v1/workers") as answer:
                return json.load(answer)["total"] > 0
        except HTTPError as error:
            with error:
                return error.code == 401  # nobody asks it directly

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Keyboard(io.StringIO):
    """Somebody at a terminal, who types this."""

    def isatty(self) -> bool:
        return True


def the_json(answer: Any) -> Any:
    """What a command with --json answered; it went well, and said nothing else."""
    assert answer.code == 0, answer.err
    assert answer.err == ""
    return json.loads(answer.out)
