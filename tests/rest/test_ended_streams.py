"""Open streams end with the access of their credential; on both databases."""

import asyncio

import pytest

from ostinato.access.tokens import Tokens
from ostinato.core.access import Role
from ostinato.core.errors import StoreUnavailable
from ostinato.core.read_models import Stream as Kind
from ostinato.rest import streams
from ostinato.store.logs import LogLine, size_of
from ostinato.wiring import build_api
from tests.build import HOUR
from tests.dashboard.busy import Busy
from tests.dashboard.conftest import SECRET, Visitor
from tests.rest.conftest import NoEngine
from tests.rest.test_events import Stream, a_job, run
from tests.waiting import PATIENCE


def bearer_headers(credential: str) -> dict[str, str]:
    return {"authorization": f"Bearer {credential}"}


def with_auth(new_app):
    app = new_app(auth_secret=SECRET)
    return app, build_api(app.parts, app.scheduler, NoEngine())


def test_a_revoked_key_does_not_receive_its_own_revocation(new_app, monkeypatch):
    monkeypatch.setattr(streams, "CHECK_EVERY", 3600.0)  # only what tells of ended access is looked at in time
    app, api = with_auth(new_app)
    key = app.scheduler.keys.create("spy", Role.VIEWER)
    other = app.scheduler.keys.create("other", Role.VIEWER)

    async def story():
        spy = Stream(api, headers=bearer_headers(key.text))
        watching = Stream(api, headers=bearer_headers(other.text))
        await spy.begun()
        await watching.begun()
        await asyncio.to_thread(app.scheduler.keys.revoke, key.row.id)
        await spy.until(lambda s: s.over)
        await watching.until(lambda s: "key.revoked" in s.kinds())
        assert spy.kinds() == []
        await watching.leave()

    run(story())


def test_a_revoked_key_hears_nothing_after_a_second(new_app, monkeypatch):
    """With a look before each delivery, no event after the revocation comes through."""
    monkeypatch.setattr(streams, "CHECK_EVERY", 0.0)
    monkeypatch.setattr(streams, "ENDS_ACCESS", ())
    app, api = with_auth(new_app)
    key = app.scheduler.keys.create("spy", Role.VIEWER)

    async def story():
        spy = Stream(api, headers=bearer_headers(key.text))
        await spy.begun()
        await asyncio.to_thread(a_job, app)
        await spy.until(lambda s: "job.created" in s.kinds())
        heard = len(spy.events)
        await asyncio.to_thread(app.scheduler.keys.revoke, key.row.id)
        await asyncio.to_thread(a_job, app)
        await spy.until(lambda s: s.over)
        assert len(spy.events) == heard

    run(story())


def test_the_log_stream_of_a_revoked_key_ends(new_app, monkeypatch):
    monkeypatch.setattr(streams, "CHECK_EVERY", 0.0)
    app, api = with_auth(new_app)
    busy = Busy(Visitor(app))
    key = app.scheduler.keys.create("spy", Role.VIEWER)

    def write(text: str) -> None:
        line = LogLine(busy.running.id, busy.now, 20, Kind.LOG, text, size_of(text))
        app.parts.store.logs.append([line], {}, 1_000_000)

    async def story():
        path = f"/api/v1/executions/{busy.running.id}/log"
        spy = Stream(api, headers=bearer_headers(key.text), path=path)
        await asyncio.to_thread(write, "first")
        await spy.until(lambda s: "first" in s.text)
        await asyncio.to_thread(app.scheduler.keys.revoke, key.row.id)
        await asyncio.to_thread(write, "second")
        await spy.until(lambda s: s.over)
        assert "second" not in spy.text

    run(story())


@pytest.mark.parametrize("way", ["token", "name", "all"])
def test_the_stream_of_an_ended_token_ends(new_app, way):
    app, api = with_auth(new_app)
    service, tokens = app.scheduler, Tokens.of(app.settings)
    token = tokens.issue("ann", Role.VIEWER, service.now(), HOUR)

    def end() -> None:
        if way == "token":
            service.access.end_token(tokens.admit(token, service.now()).credential, service.now() + HOUR)
        elif way == "name":
            service.access.end_name("ann")
        else:
            service.access.end_all()

    async def story():
        stream = Stream(api, headers=bearer_headers(token))
        await stream.begun()
        await asyncio.to_thread(end)
        await stream.until(lambda s: s.over)
        assert stream.kinds() == []

    run(story())


def test_a_stream_waits_while_the_database_cannot_say_whether_its_key_is_good(new_app, monkeypatch):
    monkeypatch.setattr(streams, "CHECK_EVERY", 0.0)
    monkeypatch.setattr(streams, "AWAY", 0.01)
    app, api = with_auth(new_app)
    key = app.scheduler.keys.create("ci", Role.VIEWER)
    find, asked = app.parts.store.keys.find, []

    def away(prefix):
        asked.append(prefix)
        raise StoreUnavailable("away")

    async def story():
        stream = Stream(api, headers=bearer_headers(key.text))
        await stream.begun()
        app.parts.store.keys.find = away
        job = await asyncio.to_thread(a_job, app)
        await stream.until(lambda _: len(asked) > 2)
        assert stream.events == []
        app.parts.store.keys.find = find
        await stream.until(lambda s: str(job) in s.text)
        await stream.leave()

    run(story())


def test_one_credential_holds_so_many_streams_and_leaves_room_for_others(new_app, monkeypatch):
    monkeypatch.setattr(streams, "MOST_OF_ONE", 2)
    app, api = with_auth(new_app)
    greedy, other = (app.scheduler.keys.create(name, Role.VIEWER).text for name in ("greedy", "other"))

    async def story():
        held = [Stream(api, headers=bearer_headers(greedy)) for _ in range(2)]
        for stream in held:
            await stream.begun()
        third = Stream(api, headers=bearer_headers(greedy))
        await asyncio.wait_for(third.task, PATIENCE)
        assert (third.status, third.headers["retry-after"]) == (429, "5")
        modest = Stream(api, headers=bearer_headers(other))
        await modest.begun()
        await held[0].leave()
        again = Stream(api, headers=bearer_headers(greedy))
        await again.begun()
        for stream in (held[1], modest, again):
            await stream.leave()
        assert not api.state.streams._open

    run(story())
