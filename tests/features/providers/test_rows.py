"""Budgets in the database, on both kinds: exact, whichever process takes or dies."""

from bisect import bisect_left
from datetime import timedelta
from random import Random

import pytest

from ostinato.core.auth import InHeader
from ostinato.core.errors import Conflict, NotFound
from ostinato.core.model import WaitsFor
from ostinato.core.outcome import Deferred
from ostinato.features.providers.rows import BudgetSpending, Providers
from ostinato.features.providers.rules import MARGIN, Provider
from tests.build import HOUR, MINUTE, SECOND
from tests.store.conftest import together

HOST = "api.example.org"
HOLD = 30 * SECOND


def provider(world, limit: int = 3, period: timedelta = MINUTE, domain: str = HOST) -> None:
    world.store.part(Providers).save(Provider(domain, limit, period), world.now, "ann")


def take(world, want: int = 1, over=(), store=None, domain: str = HOST):
    return (store or world.store).part(Providers).take(domain, want, world.now, HOLD, over)


def answered(world, taken, used: int | None = None) -> BudgetSpending:
    return BudgetSpending(taken.id, HOST, taken.count if used is None else used, world.now)


def standing(world) -> dict[str, tuple[int, int]]:
    return {row.provider.domain: (row.left, row.waiting) for row in world.store.part(Providers).standing(world.now)}


def test_a_provider_is_saved_replaced_and_deleted(world):
    store = world.store.part(Providers)
    first = Provider(HOST, 3, MINUTE, InHeader("X-Key", "env:SECRET_KEY"))
    assert store.save(first, world.now, "ann", new=True)
    with pytest.raises(Conflict):
        store.save(first, world.now, "ann", new=True)
    assert store.all() == [first]
    assert not store.save(Provider(HOST, 5, HOUR), world.now, "bob")
    assert not store.save(Provider(HOST, 5, HOUR), world.now + HOUR, "eve")  # it exists already
    ((row,)) = store.standing(world.now)
    assert (row.provider, row.saved_by) == (Provider(HOST, 5, HOUR), "bob")
    store.delete(HOST, world.now, "ann")
    with pytest.raises(NotFound):
        store.delete(HOST, world.now, "ann")
    assert store.all() == []
    kinds = [event.kind for event in world.store.history.events(10)]
    assert kinds == ["provider.deleted", "provider.saved", "provider.saved"]


def test_so_many_are_let_through_and_then_it_is_said_when_there_will_be_more(world):
    provider(world)
    for _ in range(3):
        taken = take(world)
        assert taken.count == 1
        world.store.part(Providers).answer([answered(world, taken)])
        world.advance(SECOND)
    refused = take(world)
    assert (refused.count, refused.opens_at) == (0, world.now - 3 * SECOND + MINUTE + MARGIN)
    assert standing(world) == {HOST: (0, 0)}
    world.now = refused.opens_at
    assert take(world).count == 1
    assert take(world).count == 0
    assert standing(world) == {HOST: (0, 0)}


def test_what_was_not_answered_counts_for_as_long_as_it_could_be_on_its_way(world):
    provider(world)
    assert take(world, want=3).count == 3  # and then its process dies
    world.advance(HOLD + MINUTE - SECOND)
    assert take(world).count == 0
    world.advance(SECOND)
    assert take(world, want=3).count == 3


def test_what_is_answered_late_counts_from_its_answer(world):
    provider(world)
    taken = take(world, want=3)
    world.advance(20 * SECOND)
    world.store.part(Providers).answer([answered(world, taken)])
    world.advance(MINUTE)
    assert take(world).count == 0
    world.advance(MARGIN)
    assert take(world).count == 1


def test_what_was_not_used_is_given_back(world):
    provider(world)
    taken = take(world, want=3)
    assert take(world, over=[answered(world, taken, used=1)]).count == 1  # answered and taken in one call
    second = take(world)
    world.store.part(Providers).answer([answered(world, second, used=0)])
    assert standing(world) == {HOST: (1, 0)}


def test_no_more_is_given_than_there_is(world):
    provider(world)
    assert take(world, want=100).count == 3
    assert take(world, domain="other.example.org") is None


def test_large_budgets_are_taken_in_batches(world):
    provider(world, limit=5000, period=HOUR)
    assert take(world).count == 20


def test_an_edit_counts_from_its_commit(world):
    provider(world, limit=10)
    taken = take(world, want=8)
    world.store.part(Providers).answer([answered(world, taken)])
    provider(world, limit=5)
    assert take(world).count == 0
    provider(world, limit=10)
    assert take(world, want=5).count == 2
    world.store.part(Providers).delete(HOST, world.now, "ann")
    assert take(world, over=[answered(world, taken)]) is None


def test_a_clock_that_was_set_back_does_not_close_a_window_for_long(world):
    provider(world, limit=1)
    world.advance(100 * HOUR)
    taken = take(world)
    world.store.part(Providers).answer([answered(world, taken)])
    world.advance(-100 * HOUR)
    refused = take(world)
    assert refused.count == 0
    assert refused.opens_at - world.now <= MINUTE + timedelta(minutes=15)


def test_two_processes_never_take_the_same(world):
    provider(world, limit=40, period=HOUR)
    stores = [world.store, world.another(), world.another()]

    def greedy(store):
        return lambda: sum(take(world, store=store).count for _ in range(20))

    assert sum(together(*(greedy(store) for store in stores))) == 40


def test_whatever_is_taken_and_answered_no_window_ever_sees_more(world):
    """Random requests that are seen at some moment between taking and answer, and processes that die."""
    dice = Random(6)
    provider(world, limit=5, period=10 * SECOND)
    seen, under_way = [], []
    for _ in range(300):
        world.advance(timedelta(seconds=dice.random() * 2))
        for each in list(under_way):
            if dice.random() < 0.3:
                under_way.remove(each)
                taken, since = each
                if dice.random() < 0.8:  # otherwise the process died with it
                    world.store.part(Providers).answer([answered(world, taken)])
                moment = since + dice.random() * (min(world.now, since + HOLD) - since)
                seen += [moment] * taken.count
        taken = take(world, want=dice.randint(1, 3))
        if taken.count:
            under_way.append((taken, world.now))
    seen.sort()
    windows = [bisect_left(seen, at + 10 * SECOND) - index for index, at in enumerate(seen)]
    assert len(seen) > 50
    assert max(windows) == 5


def test_who_waits_for_a_budget_is_known_while_it_waits(world):
    provider(world)
    ids = world.enqueue(3)
    worker = world.worker()
    claimed = world.claim(worker)
    until = world.now + MINUTE
    world.settle(claimed[:2], Deferred(until, HOST))
    world.settle(claimed[2:], Deferred(until))
    waiting = [live for job_id in ids for live in world.lives(job_id) if live.waits_for is WaitsFor.TIME]
    assert [world.store.deferrals.budget_of(live.id, live.run_at) for live in waiting].count(HOST) == 2
    assert standing(world) == {HOST: (3, 2)}
    world.now = until
    world.run_all(worker)
    assert standing(world) == {HOST: (3, 0)}
    assert world.sql("SELECT count(*) FROM {deferrals}") == [(2,)]
    world.store.deferrals.forget()
    assert world.sql("SELECT count(*) FROM {deferrals}") == [(0,)]
