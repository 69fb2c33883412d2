"""`ostinato serve` as a real process, and a way to ask it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from tests.waiting import PATIENCE

# One process for all starts sooner; the tests of HTTP ask for the second one.
USUAL = {"OSTINATO_SHUTDOWN_GRACE": "0s", "OSTINATO_HTTP_PROCESS": "off", "PYTHONUNBUFFERED": "1"}
AN_APP = """
import asyncio
from pathlib import Path
from ostinato import Ostinato

app = Ostinato("seed")

@app.task
def fine() -> dict:
    return {"good": True}

@app.task
def fails() -> None:
    raise ConnectionError("connection timeout")

@app.task
async def holds(name: str) -> None:
    Path(f"{name}.started").touch()
    while not Path(f"{name}.go").exists():
        await asyncio.sleep(0.02)  # in another process
"""


class Answer(NamedTuple):
    """What the server said."""

    code: int
    body: Any


class Server:
    """A server process; `server("POST", "/api/v1/jobs", {…})` asks it."""

    APP = AN_APP

    def __init__(self, folder: Path, url: str, *flags: str, **environment: str) -> None:
        self.folder = folder
        (folder / "seed.py").write_text(self.APP)
        self._log = folder / f"log-{len(list(folder.glob('log-*')))}"
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-c", "from ostinato.program import main; main()", "serve", "--app", "seed:app",
                    "--port", "0", "--database", url, "--migrate", *flags,
                ],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env=os.environ | USUAL | environment,
            )  # fmt: skip
        self.address = ""

    def ready(self) -> bool:
        """Whether it has said where it listens."""
        assert self._process.poll() is None, self.log
        found = re.search(r"^  http +(http://\S+)", self.log, re.MULTILINE)
        self.address = found[1] if found else ""
        return found is not None

    @property
    def log(self) -> str:
        return self._log.read_text()

    def __call__(self, method: str, path: str, body: object = None) -> Answer:
        """`body`: an object, or text that is sent as it is."""
        text = body if isinstance(body, str) else json.dumps(body)
        data = None if body is None else text.encode()
        request = urllib.request.Request(self.address + path, data, method=method)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return Answer(answer.status, None if answer.status == 204 else json.load(answer))
        except urllib.error.HTTPError as refusal:
            with refusal:
                return Answer(refusal.code, json.load(refusal))

    def ask_to_stop(self) -> None:
        self._process.terminate()

    def end(self) -> int:
        """Its exit code, once it has ended."""
        return self._process.wait(PATIENCE)

    def terminate(self) -> int:
        self.ask_to_stop()
        return self.end()

    def kill(self) -> None:
        """As abruptly as can be."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(PATIENCE)
