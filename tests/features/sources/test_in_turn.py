"""Many sources and few workers: each has its turn before any has a second one, and no worker takes more than it may."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ostinato.core.addresses import EVERYWHERE
from ostinato.core.builtin import Permits
from ostinato.core.outcome import OutcomeKind
from ostinato.features.sources.service import SourceContext, SourceService
from tests.played_api import PlayedApi, a_source_of
from tests.system.conftest import SHORT, Workshop, opened
from tests.system.workshop import make_app
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.system
MANY = 20
HERE = SourceContext(permits=Permits(egress=EVERYWHERE))


@pytest.fixture
def api() -> Iterator[PlayedApi]:
    with PlayedApi() as api:
        yield api


@pytest.fixture
def workshop(database_url: str, tmp_path: Path) -> Iterator[Workshop]:
    workshop = Workshop(database_url, tmp_path)
    workshop.app.close()
    workshop.app = make_app(database_url=database_url, allow_private_addresses=True, **SHORT)
    workshop.app.open()
    yield from opened(workshop)


@pytest.fixture(autouse=True)
def no_tables_yet(database_url: str) -> None:
    if database_url.startswith("postgres"):
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS things")


def made(workshop: Workshop, api: PlayedApi, play: Any, **more: Any) -> list[Any]:
    """Sources that are due at once, each with a path of its own."""
    ids = []
    for number in range(MANY):
        api.bodies[f"/s{number}"] = play
        definition = a_source_of(api.url(f"/s{number}"), f"s{number}", **more)
        ids.append(workshop.app.scheduler.part(SourceService).create(definition, HERE).job.id)
    return ids


def paths(api: PlayedApi) -> list[str]:
    return [path for path, _ in api.requests]


def test_with_one_worker_all_run_once_before_any_runs_twice(workshop, api):
    """A round takes longer than the interval: when the last one's turn comes, the first ones are due again."""

    def slowly(handler: Any) -> None:
        threading.Event().wait(0.1)
        handler.answer(handler.api.slice(0, 3))

    made(workshop, api, slowly, schedule="interval:1s")
    workshop.start_one(allow_private_addresses=True, concurrency=1)
    eventually(lambda: len(api.requests) >= MANY + 5)
    assert len(set(paths(api)[:MANY])) == MANY


def test_two_workers_run_each_once_and_hold_no_more_than_they_may(workshop, api):
    def when_let(handler: Any) -> None:
        handler.api.go_on.wait(PATIENCE)
        handler.answer(handler.api.slice(0, 3))

    ids = made(workshop, api, when_let, schedule="daily")
    workshop.start(2, allow_private_addresses=True, concurrency=3)
    eventually(lambda: len(api.requests) == 6)
    held = Counter(live.worker_id for live in workshop.running())
    assert sorted(held.values()) == [3, 3]
    assert len(set(paths(api))) == 6, "none is in flight twice"
    api.go_on.set()
    store = workshop.app.parts.store
    eventually(lambda: all(store.history.of_job(each, 10) for each in ids))
    results = [[run.outcome for run in store.history.of_job(each, 10)] for each in ids]
    assert results == [[OutcomeKind.COMPLETED]] * MANY
    assert Counter(paths(api)) == {f"/s{number}": 1 for number in range(MANY)}
    assert len(workshop.app.scheduler.part(SourceService).records("s7", 10)) == 3
