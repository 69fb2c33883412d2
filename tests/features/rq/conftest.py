"""Fixtures: apps with RQ as the engine, a real Redis, and an RQ worker in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from rq import Queue, SimpleWorker
from rq.serializers import JSONSerializer

import ostinato.rq
from ostinato import Ostinato
from ostinato.clock import ManualClock
from tests.app.conftest import new_app

__all__ = ["new_app"]


class BriefWorker(SimpleWorker):
    """A worker without commands: ending its command thread would take half a second."""

    def subscribe(self) -> None:
        pass

    def unsubscribe(self) -> None:
        pass

    def _install_signal_handlers(self) -> None:
        """Do nothing: this process runs the tests."""


@pytest.fixture
def app(new_app, redis_url) -> Iterator[Ostinato]:
    """An app that sends its changes to Redis, and for which this process executes messages."""
    app = new_app(engine="rq", redis_url=redis_url)
    ostinato.rq.use(app)
    yield app
    ostinato.rq._engine = None


@pytest.fixture
def clock(app) -> ManualClock:
    """The clock of the app."""
    clock = ManualClock(app.now())
    app._parts = replace(app.parts, clock=clock)
    app._scheduler = None
    ostinato.rq.use(app)
    return clock


@pytest.fixture
def redis(valkey, redis_url):
    with valkey.client() as client:
        yield client


@pytest.fixture
def line(redis) -> Callable[[], list[str]]:
    """Return the messages that workers may take now."""
    return lambda: Queue("default", connection=redis, serializer=JSONSerializer).get_job_ids()


@pytest.fixture
def scheduled(redis) -> Callable[[], dict[str, int]]:
    """Return the scheduled messages and their seconds."""
    return lambda: {
        name.decode(): int(score) for name, score in redis.zrange("rq:scheduled:default", 0, -1, withscores=True)
    }


@pytest.fixture
def work(redis) -> Callable[[], None]:
    """Let an RQ worker execute the queued messages in this process."""

    def work() -> None:
        queue = Queue("default", connection=redis, serializer=JSONSerializer)
        BriefWorker([queue], connection=redis, serializer=JSONSerializer).work(burst=True, logging_level="ERROR")

    return work
