"""The HTTP process, run in the test's process: its duties beside the answers."""

from __future__ import annotations

import asyncio
import socket
from datetime import timedelta

import pytest

from ostinato import Ostinato, wiring
from ostinato.app import http_main
from ostinato.app.engine_link import STOP
from ostinato.app.http_process import HttpProcess
from ostinato.app.listening import AppReference, Listening
from ostinato.clock import MeasuredClock
from ostinato.config import Settings
from ostinato.isolation.frames import packed
from tests.build import NOW, SECOND
from tests.waiting import until


class SetBack:
    """A clock that was set back by an hour and that a test advances."""

    def __init__(self) -> None:
        self.passed, self.ahead = 0.0, timedelta(0)

    def shown(self):
        return NOW + timedelta(seconds=self.passed) + self.ahead

    def measured(self, *, own_host: bool) -> MeasuredClock:
        return MeasuredClock(self.shown, lambda: self.passed, own_host=own_host)


@pytest.mark.parametrize("own_host", [True, False], ids=["host", "server"])
def test_the_http_process_follows_a_clock_that_was_set_back_though_it_is_idle(sqlite_url, monkeypatch, own_host):
    source = SetBack()
    clock = source.measured(own_host=own_host)
    monkeypatch.setattr(wiring, "clock_of", lambda _: clock)
    app = Ostinato("shop", database_url=sqlite_url, sweep="10ms")
    app.open(upgrade=True)
    source.ahead = -timedelta(hours=1)

    def corrected() -> bool:
        source.passed += 5
        return clock.zero == NOW - timedelta(hours=1)

    async def serve() -> None:
        ours, theirs = socket.socketpair()
        with ours, Listening(port=0).bind(Settings()) as bound:
            serving = asyncio.create_task(http_main._serve(app, bound, theirs, insecure=True))
            await until(corrected, 20)
            ours.send(packed({"do": STOP}))
            await serving

    try:
        asyncio.run(serve())
        assert clock.now() == source.shown()
        assert source.passed * SECOND < timedelta(minutes=30)
    finally:
        app.close()


def test_a_moment_without_threads_starts_the_http_process_later(monkeypatch):
    """`asyncio.to_thread` raises RuntimeError then; the engine continues."""

    async def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> str:
        with Listening(port=0).bind(Settings()) as bound:
            monkeypatch.setattr(asyncio, "to_thread", no_thread)
            return await HttpProcess(bound, AppReference(None, {}), insecure=True)._run_once()

    assert asyncio.run(main()) == "can't start new thread"
