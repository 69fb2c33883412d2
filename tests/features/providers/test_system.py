"""The budget of a provider holds for all worker processes together, also when one of them is killed."""

from __future__ import annotations

import time

import pytest

from ostinato.core.outcome import OutcomeKind
from ostinato.features.providers.rows import Providers
from ostinato.features.providers.rules import Provider
from tests.build import SECOND
from tests.features.providers.test_gate import most_in_any
from tests.playground import Playground
from tests.system.conftest import Workshop
from tests.waiting import eventually

pytestmark = pytest.mark.system

LIMIT = 10
ALLOWED = {"allow_private_addresses": True, "concurrency": 6}


@pytest.mark.parametrize("seconds", [pytest.param(5, id="short"), pytest.param(30, id="long", marks=pytest.mark.soak)])
def test_two_workers_one_of_which_dies_never_ask_more_often_than_they_may(
    workshop: Workshop, playground: Playground, seconds: int
):
    store = workshop.app.parts.store
    store.part(Providers).save(Provider("127.0.0.1", LIMIT, SECOND), workshop.app.parts.clock.now(), "test")
    first, _ = workshop.start(2, **ALLOWED)
    jobs = [
        *workshop.enqueue("asks", 6, url=playground.url("/ok"), times=1000, patience=2.0),
        *workshop.enqueue("asks", 6, url=playground.url("/ok"), times=1000, patience=0.0),  # deferred again and again
    ]
    eventually(lambda: len(playground.requests) >= 2 * LIMIT)
    first.kill()
    killed_at = time.time()
    workshop.start_one(**ALLOWED)
    eventually(lambda: playground.requests[-1].at > killed_at + seconds)
    times = [request.at for request in playground.requests]
    assert most_in_any(1.0, times) <= LIMIT
    assert sum(at > killed_at for at in times) >= LIMIT * seconds / 4  # it goes on, at no small part of the pace
    assert any(live.releases for live in workshop.live())
    ended = [each for job in jobs for each in workshop.history(job)]
    assert {each.outcome for each in ended} <= {OutcomeKind.LOST}  # a deferral is no failure
