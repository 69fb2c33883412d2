"""A real `ostinato serve` for the browser, with tasks that wait for a word, fail, and write a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.acceptance.server import Server
from tests.waiting import eventually

TASKS = """
import asyncio
from pathlib import Path
from ostinato import Context, Ostinato

app = Ostinato("shop")

@app.task
def greet(name: str, times: int = 1, loud: bool = False) -> dict:
    return {"greeting": f"Hello {name}" * times}

@app.task
def fails(path: str = "nothing") -> None:
    if not Path(f"{path}.mended").exists():
        raise ConnectionError("the printer is on fire")

@app.task
async def holds(ctx: Context, path: str) -> str:
    ctx.log.info("it has begun", path=path)
    Path(f"{path}.started").touch()
    n = 0
    while not Path(f"{path}.go").exists():
        n += 1
        if Path(f"{path}.talk").exists():
            Path(f"{path}.talk").unlink()
            ctx.log.warning("somebody asked me to talk")
            ctx.progress(n, message="talking")
            ctx.count(words_said=1204)
        await asyncio.sleep(0.02)  # in another process
    return "held"
"""


class Place(Server):
    """The server, and what a test makes there before it looks."""

    APP = TASKS

    def job(self, **body: Any) -> dict[str, Any]:
        """A job, made over the API."""
        code, job = self("POST", "/api/v1/jobs", body)
        assert code == 201, job
        return job

    def get(self, path: str) -> Any:
        code, body = self("GET", f"/api/v1{path}")
        assert code == 200, body
        return body

    def touch(self, name: str) -> None:
        (self.folder / name).touch()


def started(folder: Path, url: str, *flags: str, **environment: str) -> Place:
    place = Place(folder, url, *flags, **environment)
    eventually(place.ready)
    return place
