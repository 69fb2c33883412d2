"""Concurrency limits: a few requests of a credential at once, others in order, and a bounded queue."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from httpx2 import ASGITransport, AsyncClient
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from ostinato.access.credentials import recogniser
from ostinato.access.requests import AT_WORK, WAITING, WAITING_UNNAMED, Workload
from ostinato.access.sessions import Visitors
from ostinato.config import Settings
from ostinato.core.access import ANONYMOUS, Admission, Role
from ostinato.rest.middleware import Working
from ostinato.wiring import build_api
from tests.rest.conftest import NoEngine
from tests.waiting import PATIENCE, until


class Held:
    """An app whose requests run until a test releases them; an answer can continue after its start."""

    def __init__(self, workload: Workload) -> None:
        self.at_work: list[str] = []
        self.let_go = asyncio.Event()
        self.ended = asyncio.Event()
        self.working = Working(self._app, workload)
        self.answers: dict[str, int] = {}

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        self.at_work.append(scope["path"])
        await self.let_go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await self.ended.wait()
        await send({"type": "http.response.body", "body": b""})

    def ask(self, path: str, credential: str | None = "key:1") -> asyncio.Task[None]:
        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.answers[path] = message["status"]

        state = {} if credential is None else {"admission": Admission(ANONYMOUS, credential)}
        scope = {"type": "http", "path": path, "state": state}
        return asyncio.create_task(self.working(scope, None, send))


def test_requests_beyond_the_places_wait_in_their_order_and_beyond_the_queue_are_429():
    async def main() -> None:
        held = Held(Workload(waiting=3, at_work=2))
        asked = [held.ask(str(number)) for number in range(6)]
        await until(lambda: held.answers == {"5": 429})
        assert held.at_work == ["0", "1"]
        others = [held.ask("other", "key:2"), held.ask("open", None)]
        await until(lambda: held.at_work[2:] == ["other", "open"])
        held.let_go.set()
        await until(lambda: len(held.answers) == 8)  # though no answer has ended
        assert [path for path in held.at_work if path.isdecimal()] == ["0", "1", "2", "3", "4"]
        held.ended.set()
        await asyncio.gather(*asked, *others)
        assert not held.working._workload._queues

    asyncio.run(main())


def test_a_request_that_is_given_up_gives_its_place_back():
    async def main() -> None:
        held = Held(Workload(waiting=1, at_work=1))
        at_work, waits = held.ask("a"), held.ask("b")
        await until(lambda: held.at_work)
        for task in (waits, at_work):
            task.cancel()
        await asyncio.gather(at_work, waits, return_exceptions=True)
        assert not held.working._workload._queues

    asyncio.run(main())


def test_a_stranger_cannot_lock_out_the_log_in(new_app):
    app = new_app(auth_required=True)
    api, key = build_api(app.parts, app.scheduler, NoEngine()), app.scheduler.keys.create("ann", Role.VIEWER)

    async def main() -> None:
        async with AsyncClient(transport=ASGITransport(api), base_url="http://127.0.0.1:8060") as client:
            answers = await asyncio.gather(*(client.get("/login") for _ in range(120)))
            assert {answer.status_code for answer in answers} == {200}
            places = [await api.state.workload.place(f"key:{key.row.id}") for _ in range(AT_WORK)]
            waiting = [asyncio.create_task(api.state.workload.place(f"key:{key.row.id}")) for _ in range(WAITING)]
            await asyncio.sleep(0)
            limited = await client.get("/api/v1/jobs", headers={"X-API-Key": key.text})
            assert (limited.status_code, WAITING) == (429, 64)
            for place in places:
                place.give_back()
            for each in waiting:
                (await each).give_back()

    asyncio.run(main())


def test_pages_and_the_api_share_the_places(app):
    api = build_api(app.parts, app.scheduler, NoEngine())

    async def main() -> None:
        workload: Workload = api.state.workload
        places = [await workload.place("") for _ in range(AT_WORK)]
        waiting = [asyncio.create_task(workload.place("")) for _ in range(WAITING_UNNAMED)]
        await asyncio.sleep(0)
        async with AsyncClient(transport=ASGITransport(api), base_url="http://127.0.0.1:8060") as client:
            page, answer = await client.get("/jobs"), await client.get("/api/v1/jobs")
            assert (page.status_code, answer.status_code) == (429, 429)
            assert answer.headers["retry-after"] == "1"
            assert (await client.get("/healthz")).status_code == 200
            for place in places:
                place.give_back()
            for each in waiting:
                (await each).give_back()
            assert (await client.get("/jobs")).status_code == 200

    asyncio.run(main())


def test_slow_requests_leave_threads_for_credentials_and_readiness(new_app):
    """All threads wait for requests to a server that does not answer."""
    app = new_app(auth_required=True)
    api, let_go = build_api(app.parts, app.scheduler, NoEngine()), threading.Event()

    async def main() -> None:
        slow = [asyncio.create_task(run_in_threadpool(let_go.wait, PATIENCE)) for _ in range(40)]
        await until(lambda: current_default_thread_limiter().available_tokens == 0)
        async with AsyncClient(transport=ASGITransport(api), base_url="http://127.0.0.1:8060") as client:
            try:
                async with asyncio.timeout(PATIENCE / 2):
                    assert (await client.get("/readyz")).status_code == 200
                    assert (await client.get("/api/v1/jobs")).status_code == 401
            finally:
                let_go.set()
                await asyncio.gather(*slow)

    asyncio.run(main())


def test_all_sessions_of_a_key_share_its_places(new_app):
    service = new_app(auth_required=True).scheduler
    visitors = Visitors(recogniser(Settings(auth_required=True), service), service)
    key = service.keys.create("ann", Role.VIEWER)
    cookies = [visitors.begin(key.text) for _ in range(2)]
    found = {visitors.of(visit_with(cookie)).credential for cookie in cookies}
    assert found == {f"key:{service.keys.find(key.text).id}"}


def visit_with(cookie: str) -> HTTPConnection:
    return HTTPConnection({"type": "http", "headers": [(b"cookie", f"ostinato={cookie}".encode())]})
