"""Calls of running tasks to the features of their worker."""

from __future__ import annotations

import asyncio

import pytest

from ostinato.core.errors import Invalid, LeaseLost, StoreUnavailable
from ostinato.engine import worker
from ostinato.engine.worker import TaskCalls
from ostinato.store.kernel import Kernel, TaskCall
from ostinato.task import CallReply
from tests.build import a_live

LIVE = a_live(running=True)


class Shop:
    """Features of which one has the call `shop.store`, and a lease."""

    def __init__(self, *, repeats: bool = False) -> None:
        self.trusted, self.asked, self.failures, self.is_stale = True, [], [], False
        self.store, self.database, self.features = self, self, self
        self._call = TaskCall(self.answer, repeats)

    def answer(self, kernel, live, request):
        self.asked.append(request)
        if self.failures:
            raise self.failures.pop()
        return None if self.is_stale else CallReply(len(self.asked), '{"n":1}')

    def call(self, name):
        assert name == "shop.store"
        return self._call


def asked(shop, request=None):
    return TaskCalls(Kernel(shop, None, None), shop).answer(LIVE, "shop.store", request)


def test_a_call_is_answered_with_its_checkpoint():
    assert asked(Shop(), {"n": 1}) == CallReply(1, '{"n":1}')


def test_a_run_without_a_trusted_lease_calls_nothing():
    shop = Shop()
    shop.trusted = False
    with pytest.raises(LeaseLost):
        asked(shop)
    assert shop.asked == []


def test_a_run_with_a_stale_fence_learns_that_its_lease_is_lost():
    shop = Shop(repeats=True)
    shop.is_stale = True
    with pytest.raises(LeaseLost):
        asked(shop)
    assert len(shop.asked) == 1


def test_a_call_on_the_loop_is_refused_because_it_waits_for_the_database():
    async def on_the_loop():
        asked(shop)

    shop = Shop()
    with pytest.raises(Invalid, match="on a thread"):
        asyncio.run(on_the_loop())
    assert shop.asked == []


def test_a_call_is_repeated_while_the_database_is_unavailable_if_it_says_so(monkeypatch):
    monkeypatch.setattr(worker, "AGAIN", 0)
    shop = Shop(repeats=True)
    shop.failures = [StoreUnavailable("away"), StoreUnavailable("away")]
    assert asked(shop).value == 3
    shop = Shop()
    shop.failures = [StoreUnavailable("away")]
    with pytest.raises(StoreUnavailable):
        asked(shop)


def test_a_repeated_call_ends_when_the_lease_is_lost(monkeypatch):
    shop = Shop(repeats=True)
    shop.failures = [StoreUnavailable("away")] * 5

    def lose(_seconds):
        shop.trusted = False

    monkeypatch.setattr(worker.time, "sleep", lose)
    with pytest.raises(LeaseLost):
        asked(shop)
    assert len(shop.asked) == 1


def test_an_unknown_call_is_refused_with_its_name(rig):
    with pytest.raises(Invalid, match=r"shop\.nothing"):
        rig.store.database.features.call("shop.nothing")
