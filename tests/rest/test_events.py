"""Live events: a list, and a stream that goes on without a gap; on both databases."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlencode
from uuid import uuid4

import pytest

from ostinato import Ostinato
from ostinato.core.read_models import Item
from ostinato.rest import streams
from ostinato.wiring import build_api
from tests.build import NOW
from tests.rest.conftest import NoEngine
from tests.waiting import PATIENCE, until


class Stream:
    """A request to the app itself, whose answer may go on for ever."""

    def __init__(
        self, api, params: dict | None = None, headers: dict | None = None, path: str = "/api/v1/events"
    ) -> None:
        self.status, self.headers, self.text, self.over = 0, {}, "", False
        self._gone = asyncio.Event()
        given = {"host": "127.0.0.1", "accept": "text/event-stream"} | (headers or {})
        self._scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
            "path": path, "raw_path": path.encode(), "root_path": "",
            "query_string": urlencode(params or {}, doseq=True).encode(), "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1), "headers": [(k.encode(), v.encode()) for k, v in given.items()],
        }  # fmt: skip
        self._asked = False
        self.task = asyncio.create_task(api(self._scope, self._receive, self._send))

    async def _receive(self):
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            self.text += message.get("body", b"").decode()
            self.over = not message.get("more_body", False)

    @property
    def events(self) -> list[dict]:
        return [json.loads(line[6:]) for line in self.text.splitlines() if line.startswith("data: ")]

    @property
    def last_id(self) -> str:
        return [line[4:] for line in self.text.splitlines() if line.startswith("id: ")][-1]

    def kinds(self) -> list[str]:
        return [event["kind"] for event in self.events]

    async def until(self, true, seconds: float = PATIENCE) -> None:
        def so() -> bool:
            assert not self.task.done() or self.over or self.task.exception() is None
            return true(self)

        await until(so, seconds)

    async def begun(self) -> None:
        """The first thing that it says has an id."""
        await self.until(lambda s: "id: " in s.text)

    async def leave(self) -> None:
        self._gone.set()
        await asyncio.wait_for(self.task, PATIENCE)


@asynccontextmanager
async def listening(app, *args, **given) -> AsyncIterator[Stream]:
    stream = Stream(given.pop("api", None) or build_api(app.parts, app.scheduler, NoEngine()), *args, **given)
    try:
        yield stream
    finally:
        await stream.leave()


def a_job(app):
    from ostinato.options import define, schedule_from

    options = {"every": "1h"}
    definition = define("work", "{}", schedule_from(options, "UTC"), options, app.name, 3)
    return app.scheduler.jobs.create([definition], by="ann", allow_unknown=True)[0]


def run(story) -> None:
    asyncio.run(asyncio.wait_for(story, PATIENCE))


def test_what_happens_is_told_as_it_happens(app):
    async def story():
        async with listening(app) as stream:
            await stream.begun()
            assert (stream.status, stream.headers["content-type"]) == (
                200,
                "text/event-stream; charset=utf-8",
            )
            assert stream.headers["cache-control"] == "no-store"
            job = await asyncio.to_thread(a_job, app)
            await asyncio.to_thread(app.scheduler.jobs.pause, job, by="bob")
            await stream.until(lambda s: "job.paused" in s.kinds())
            paused = next(event for event in stream.events if event["kind"] == "job.paused")
            assert (paused["job_id"], paused["by"]) == (str(job), "bob")

    run(story())


def test_another_process_is_heard_and_its_runs_too(app, database_url):
    other = Ostinato("shop", database_url=database_url)

    @other.task
    def work() -> None: ...

    async def story():
        async with listening(app) as stream:
            await stream.begun()
            async with other.running():
                handle = await asyncio.to_thread(work.enqueue)
                await stream.until(lambda s: "execution.finished" in s.kinds())
            told = {event["kind"]: event for event in stream.events if event["job_id"] == str(handle.id)}
            assert told["execution.started"]["execution_id"] == told["execution.finished"]["execution_id"]
            assert told["execution.finished"]["data"]["outcome"] == "completed"

    try:
        run(story())
    finally:
        other.close()


def test_who_comes_back_misses_nothing(app):
    async def story():
        async with listening(app) as stream:
            await stream.begun()
            first = await asyncio.to_thread(a_job, app)
            await stream.until(lambda s: str(first) in s.text)
        meanwhile = await asyncio.to_thread(a_job, app)
        for given in ({"headers": {"last-event-id": stream.last_id}}, {"params": {"cursor": stream.last_id}}):
            async with listening(app, **given) as again:
                await again.until(lambda s: str(meanwhile) in s.text)
                ids = [event["id"] for event in again.events]
                assert len(ids) == len(set(ids))

    run(story())


def test_a_listener_hears_of_its_job_and_of_its_kinds_only(app):
    one, two = a_job(app), a_job(app)

    async def story():
        api = build_api(app.parts, app.scheduler, NoEngine())
        async with (
            listening(app, {"job": str(one)}, api=api) as mine,
            listening(app, {"kind": ["job.paused", "queue.*"]}, api=api) as kinds,
            listening(app, api=api) as all_of_it,
        ):
            for stream in (mine, kinds, all_of_it):
                await stream.begun()
            for job in (one, two):
                await asyncio.to_thread(app.scheduler.jobs.pause, job)
                await asyncio.to_thread(app.scheduler.jobs.resume, job)
            await asyncio.to_thread(app.scheduler.pause_queue, "default")
            await all_of_it.until(lambda s: "queue.paused" in s.kinds())
            await kinds.until(lambda s: "queue.paused" in s.kinds())
            await mine.until(lambda s: "job.resumed" in s.kinds())
            assert {event["job_id"] for event in mine.events} == {str(one)}
            assert set(kinds.kinds()) == {"job.paused", "queue.paused"}

    run(story())


def test_silence_is_broken_by_comments_that_move_on_the_place(app, monkeypatch):
    monkeypatch.setattr(streams, "COMMENT_EVERY", 0.05)
    monkeypatch.setattr(streams, "READ_EVERY", 0.01)

    async def story():
        async with listening(app) as stream:
            await stream.until(lambda s: s.text.count(": still here") >= 3)
            ids = {line for line in stream.text.splitlines() if line.startswith("id: ")}
            assert len(ids) >= 2
            assert stream.events == []

    run(story())


def test_a_stream_ends_when_the_server_stops(app):
    async def story():
        api = build_api(app.parts, app.scheduler, NoEngine())
        stream, late = Stream(api), None
        await stream.begun()
        api.state.streams.close()
        await stream.until(lambda s: s.over)
        await asyncio.wait_for(stream.task, PATIENCE)
        late = Stream(api)
        await asyncio.wait_for(late.task, PATIENCE)
        assert late.status == 503

    run(story())


def test_there_is_room_for_so_many_and_whoever_goes_makes_room(app, monkeypatch):
    monkeypatch.setattr(streams, "MOST_LISTENERS", 2)

    async def story():
        api = build_api(app.parts, app.scheduler, NoEngine())
        first, second = Stream(api), Stream(api)
        for stream in (first, second):
            await stream.begun()
        third = Stream(api)
        await asyncio.wait_for(third.task, PATIENCE)
        assert third.status == 503
        await first.leave()
        async with listening(app, api=api) as fourth:
            await fourth.begun()
        await second.leave()
        assert api.state.streams._channels == {}  # nobody listens: nothing is read

    run(story())


def test_whoever_is_too_slow_is_let_go(app, monkeypatch):
    monkeypatch.setattr(streams, "MOST_WAITING", 1)
    monkeypatch.setattr(streams, "READ_EVERY", 0.01)

    async def story():
        channel = streams.Channel(app.scheduler.feed())
        slow = channel.join()
        await until(lambda: not len(channel))
        assert slow.qsize() == 2  # a reading, and the end
        channel.close()

    run(story())


@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
def test_what_makes_no_sense_is_refused_before_anything_is_streamed(app, accept):
    async def story():
        for params, status in (
            ({"job": str(uuid4())}, 404),
            ({"cursor": "nonsense"}, 404),
            ({"cursor": "x" * 5000}, 422),
            ({"cursor": "é"}, 404),
            ({"limit": "0"}, 422),
            ({"kind": "x" * 61}, 422),
        ):
            stream = Stream(build_api(app.parts, app.scheduler, NoEngine()), params, {"accept": accept})
            await asyncio.wait_for(stream.task, PATIENCE)
            assert stream.status == status, params
            assert json.loads(stream.text)["detail"]

    run(story())


def test_who_asks_for_json_gets_a_list(app):
    one, two = a_job(app), a_job(app)
    app.scheduler.jobs.pause(one, by="ann")

    async def ask(**params) -> dict:
        stream = Stream(build_api(app.parts, app.scheduler, NoEngine()), params, {"accept": "application/json"})
        await asyncio.wait_for(stream.task, PATIENCE)
        assert stream.status == 200
        return json.loads(stream.text)

    async def story():
        everything = await ask()
        assert [event["kind"] for event in everything["events"]][:3] == [
            "job.paused",
            "job.created",
            "job.created",
        ]
        assert {event["job_id"] for event in (await ask(job=str(two)))["events"]} == {str(two)}
        assert [event["kind"] for event in (await ask(kind="job.p*"))["events"]] == ["job.paused"]
        assert len((await ask(limit=1))["events"]) == 1
        await asyncio.to_thread(app.scheduler.jobs.resume, one)
        since = await ask(cursor=everything["cursor"], kind="job.resumed")
        assert [event["kind"] for event in since["events"]] == ["job.resumed"]

    run(story())


# -- what one listener is told, reading by reading


def an_item(name: str):
    return Item(name, "job.paused", NOW, None, None, None, "", {})


class OwnFeed:
    """Gives these readings, one after the other."""

    def __init__(self, *readings) -> None:
        self.readings, self.asked = list(readings), []

    def since(self, cursor, _kinds=()):
        self.asked.append(cursor)
        return self.readings.pop(0)


async def told(own, first, *readings, since=None) -> str:
    queue = asyncio.Queue()
    for reading in (*readings, None):
        queue.put_nowait(reading)
    return "".join([text async for text in streams._texts(own, since, first, queue, ())])


def lines(text: str, start: str) -> list[str]:
    return [line.removeprefix(start) for line in text.splitlines() if line.startswith(start)]


def ids(text: str) -> list[str]:
    return [json.loads(line)["id"] for line in lines(text, "data: ")]


def test_what_was_read_twice_is_told_once():
    first, second = ([an_item("a")], "1"), ([an_item("a"), an_item("b")], "2")
    text = asyncio.run(told(OwnFeed(), first, second))
    assert ids(text) == ["a", "b"]


def test_only_the_last_of_a_reading_moves_on_the_place():
    """Who is cut off in the middle hears the whole reading again."""
    text = asyncio.run(told(OwnFeed(), ([], "1"), ([an_item(name) for name in "abc"], "2"), ([an_item("d")], "3")))
    assert lines(text, "id: ") == ["1", "1", "1", "2", "3"]
    text = asyncio.run(told(OwnFeed(), ([an_item(name) for name in "abc"], "1"), since="0"))
    assert lines(text, "id: ") == ["0", "0", "1"]


def test_much_that_was_missed_is_read_to_its_end(monkeypatch):
    monkeypatch.setattr(streams, "MOST_ITEMS", 2)
    own = OwnFeed(([an_item("c"), an_item("d")], "2"), ([an_item("e")], "3"))
    text = asyncio.run(told(own, ([an_item("a"), an_item("b")], "1"), ([an_item("f")], "4")))
    assert ids(text) == ["a", "b", "c", "d", "e", "f"]
    assert own.asked == ["1", "2"]
