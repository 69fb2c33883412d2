"""The log of an execution over HTTP: pages, text, and a stream that ends with the run; on both databases."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from ostinato import Context, Ostinato
from ostinato.rest import streams
from ostinato.rest.app import create_app
from tests.app.conftest import during
from tests.rest.conftest import Client
from tests.rest.test_events import Stream
from tests.waiting import PATIENCE, until


class Follower(Stream):
    """Somebody who reads the log of an execution as it comes."""

    def __init__(self, api, execution_id, params=None, headers=None) -> None:
        self._path = f"/api/v1/executions/{execution_id}/log"
        super().__init__(lambda scope, *io: api(scope | self._where(), *io), params, headers)

    def _where(self):
        return {"path": self._path, "raw_path": self._path.encode()}

    @property
    def told(self) -> list[tuple[str, dict]]:
        """Each event, with its kind."""
        found = []
        for block in self.text.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if "data" in fields:
                found.append((fields.get("event", "line"), json.loads(fields["data"])))
        return found

    def of(self, kind: str) -> list[dict]:
        return [data for each, data in self.told if each == kind]

    @property
    def texts(self) -> list[str]:
        return [line["text"] for line in self.of("line")]


def says(ctx: Context) -> None:
    ctx.log.info("begin")
    ctx.log.error("trouble", code=7)
    ctx.log.warning("ende ü")


@pytest.fixture
def said(app: Ostinato, api: Client) -> str:
    """An execution that said something."""
    app.register("says", says)

    async def body():
        job = app.enqueue([app.call("says")])[0]
        return str((await job.await_(PATIENCE)).id)

    return during(app, body)


# -- pages


def test_the_log_of_an_execution(api: Client, said: str):
    answer = api.get(f"/executions/{said}/log")
    assert [(line["number"], line["level"], line["stream"], line["text"]) for line in answer["lines"]] == [
        (1, "info", "log", "begin"),
        (2, "error", "log", "trouble  code=7"),
        (3, "warning", "log", "ende ü"),
    ]
    assert (answer["next"], answer["cut"]) == (3, 0)


def test_a_part_of_it(api: Client, said: str):
    first = api.get(f"/executions/{said}/log?limit=1")
    assert ([line["number"] for line in first["lines"]], first["next"]) == ([1], 1)
    rest = api.get(f"/executions/{said}/log?after=1&level=WARNING")
    assert [line["number"] for line in rest["lines"]] == [2, 3]
    assert api.get(f"/executions/{said}/log?after=3")["lines"] == []


def test_as_text(api: Client, said: str):
    answer = api.ask("GET", f"/executions/{said}/log", headers={"Accept": "text/plain"})
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    lines = answer.text.splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == [
        "INFO     begin", "ERROR    trouble  code=7", "WARNING  ende ü",
    ]  # fmt: skip
    assert all(line.split(" ")[0].endswith("Z") for line in lines)
    one = api.ask("GET", f"/executions/{said}/log?limit=1&level=error", headers={"Accept": "text/plain"})
    assert one.text.endswith("trouble  code=7\n")


def test_of_an_execution_that_wrote_nothing(app: Ostinato, api: Client):
    job = app.enqueue([app.call("fine")])[0]
    run = app.executions.list(job.id)[0].id
    assert api.get(f"/executions/{run}/log") == {"lines": [], "next": 0, "cut": 0}
    assert api.ask("GET", f"/executions/{run}/log", headers={"Accept": "text/plain"}).text == ""


@pytest.mark.parametrize("accept", ["application/json", "text/plain", "text/event-stream"])
def test_what_is_not_there_or_not_allowed_is_said_in_sentences(api: Client, said: str, accept: str):
    for path, code, sentence in (
        (f"/executions/{uuid4()}/log", 404, "There is no execution"),
        ("/executions/nonsense/log", 404, "There is no execution 'nonsense'"),
        (f"/executions/{said}/log?level=loud", 422, "level"),
        (f"/executions/{said}/log?after=-1", 422, "after"),
        (f"/executions/{said}/log?limit=0", 422, "limit"),
        (f"/executions/{said}/log?lines=1", 422, "lines"),
    ):
        answer = api.ask("GET", path, headers={"Accept": accept})
        assert (answer.status_code, sentence in answer.json()["detail"]) == (code, True), answer.text


def test_the_desk_answers_alike(app: Ostinato, api: Client, said: str):
    page = app.executions.log(said_id := app.executions.list()[0].id, level="error")
    assert (str(said_id), [line.text for line in page.lines]) == (said, ["trouble  code=7"])


# -- as it comes


@asynccontextmanager
async def serving(app: Ostinato):
    """The app at work, and its API."""
    async with app.running():
        yield create_app(app.scheduler, app.settings)


async def running_id(app: Ostinato, job) -> str:
    found = await until(lambda: [each for each in app.executions.list(job.id) if each.status == "running"])
    return str(found[0].id)


def test_it_is_followed_while_it_runs_and_ends_with_it(app: Ostinato):
    go_on = asyncio.Event()

    async def talks(ctx: Context) -> None:
        ctx.log.info("one")
        ctx.progress(1, of=2, message="half way")
        await go_on.wait()
        ctx.log.info("two")

    app.register("talks", talks)

    async def body():
        async with serving(app) as api:
            job = app.enqueue([app.call("talks")])[0]
            stream = Follower(api, await running_id(app, job))
            await stream.until(lambda s: s.texts == ["one"])
            await stream.until(lambda s: s.of("progress"))
            assert not stream.over
            go_on.set()
            await stream.until(lambda s: s.over)
            return stream

    stream = asyncio.run(body())
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.texts == ["one", "two"]
    assert stream.of("progress") == [{"done": 1, "of": 2, "message": "half way"}]
    assert stream.told[-1] == ("end", {"status": "completed", "outcome": "completed"})


def test_who_comes_again_goes_on_where_it_was(app: Ostinato, said: str):
    async def body():
        api = create_app(app.scheduler, app.settings)
        again = Follower(api, said, headers={"last-event-id": "1"})
        odd = Follower(api, said, {"after": 2}, headers={"last-event-id": "nonsense"})
        for stream in (again, odd):
            await stream.until(lambda s: s.over)
        return again.texts, odd.texts

    assert asyncio.run(body()) == (["trouble  code=7", "ende ü"], ["ende ü"])


def test_streams_end_when_the_server_stops_and_there_is_not_room_for_all(app: Ostinato, monkeypatch):
    monkeypatch.setattr(streams, "MOST_LISTENERS", 1)

    async def holds() -> None:
        await asyncio.Event().wait()

    app.register("holds", holds)

    async def body():
        async with serving(app) as api:
            run = await running_id(app, app.enqueue([app.call("holds")])[0])
            first = Follower(api, run)
            await first.until(lambda s: s.status == 200)
            second = Follower(api, run)
            await second.until(lambda s: s.over)
            await first.leave()
            third = Follower(api, run)
            await third.until(lambda s: s.status)
            api.state.streams.close()
            await third.until(lambda s: s.over)
            await asyncio.to_thread(app.executions.cancel, app.executions.list()[0].id)
            return second.status, third.status, third.of("end")

    assert asyncio.run(body()) == (503, 200, [])
