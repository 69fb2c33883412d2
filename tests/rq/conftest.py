"""Apps whose engine is RQ, on a real Redis, and a way to let an RQ worker work off what is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from rq import Queue, SimpleWorker
from rq.serializers import JSONSerializer

import ostinato.rq
from ostinato import Ostinato
from ostinato.clock import ManualClock
from ostinato.rq import functions
from tests.app.conftest import new_app

__all__ = ["new_app"]


class BriefWorker(SimpleWorker):
    """Works off what is there and takes no commands meanwhile: to stop listening for them takes half a second."""

    def subscribe(self) -> None:
        pass

    def unsubscribe(self) -> None:
        pass

    def _install_signal_handlers(self) -> None:
        """The process is that of the tests: it ends when it is told to."""


@pytest.fixture
def app(new_app, redis_url) -> Iterator[Ostinato]:
    """Its changes are told to Redis; messages that are executed in this process are for it."""
    app = new_app(engine="rq", redis_url=redis_url)
    ostinato.rq.use(app)
    yield app
    functions._office = None


@pytest.fixture
def clock(app) -> ManualClock:
    """The clock of the app, to be moved."""
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
    """The messages that workers may take now."""
    return lambda: Queue("default", connection=redis, serializer=JSONSerializer).get_job_ids()


@pytest.fixture
def scheduled(redis) -> Callable[[], dict[str, int]]:
    """The messages that wait for a second."""
    return lambda: {
        name.decode(): int(score)
        for name, score in redis.zrange("rq:scheduled:default", 0, -1, withscores=True)
    }


@pytest.fixture
def work(redis) -> Callable[[], None]:
    """Let an RQ worker do what is in line now, in this process."""

    def work() -> None:
        queue = Queue("default", connection=redis, serializer=JSONSerializer)
        BriefWorker([queue], connection=redis, serializer=JSONSerializer).work(
            burst=True, logging_level="ERROR"
        )

    return work
