"""History shows no overlap that did not happen, and a fence is a number and a worker; on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest

from ostinato.core.model import Finished
from ostinato.core.outcome import Lost
from ostinato.core.policy import Overlap
from tests.build import HOUR, SECOND
from tests.store.conftest import DONE, World

WAIT = 2 * SECOND


def others_go_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each writing transaction wait for the write lock: time passes before it begins."""
    database = world.store.database

    def waiting(begin: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        def wait(*args: Any) -> Iterator[Any]:
            with begin(*args) as tx:
                world.advance(WAIT)
                yield tx

        return wait

    for name in ("write", "alone"):
        monkeypatch.setattr(database, name, waiting(getattr(database, name)))


def started_at(world: World, job_id: Any) -> datetime | None:
    (live,) = world.lives(job_id)
    return live.started_at


def test_a_claim_starts_when_it_had_its_turn(world, monkeypatch):
    (job_id,) = world.enqueue()
    worker = world.worker()
    with monkeypatch.context() as patch:
        others_go_first(world, patch)
        (claimed,) = world.claim(worker)
    assert claimed.live.started_at == started_at(world, job_id) == world.now


def test_a_firing_queues_when_it_had_its_turn(world, monkeypatch):
    job_id = world.add_one(every=HOUR)
    world.advance(HOUR)
    with monkeypatch.context() as patch:
        others_go_first(world, patch)
        world.fire()
    (live,) = world.lives(job_id)
    assert live.queued_at == world.now


def test_what_waited_for_its_predecessor_starts_after_its_end(world, monkeypatch):
    """The claim was sent before the settle that admitted it, and got the write lock after it."""
    job_id = world.add_one(every=HOUR, overlap=Overlap.QUEUE_ONE)
    world.advance(HOUR)
    world.fire()
    worker = world.worker()
    (first,) = world.claim(worker)
    world.advance(HOUR)
    world.fire()

    def after_the_settle(name: str) -> Callable[..., Any]:
        @contextmanager
        def begin(*args: Any) -> Iterator[Any]:
            monkeypatch.undo()
            world.advance(WAIT)
            world.settle([first])
            with getattr(world.store.database, name)(*args) as tx:
                yield tx

        return begin

    for name in ("alone", "write"):
        monkeypatch.setattr(world.store.database, name, after_the_settle(name))
    (second,) = world.claim(worker)
    (ended,) = world.history(job_id)
    assert second.live.started_at >= ended.finished_at


def test_on_postgresql_nothing_starts_before_it_was_queued(world):
    """The clocks of two hosts that estimate the server's differ a little."""
    if not world.on_postgres:
        pytest.skip("there is one clock for a file")
    (job_id,) = world.enqueue()
    world.sql("UPDATE {live} SET queued_at = queued_at + 2000000")
    (claimed,) = world.claim(world.worker())
    assert claimed.live.started_at == started_at(world, job_id) == world.now + WAIT


def test_nothing_ends_before_it_started(world):
    (job_id,) = world.enqueue()
    (claimed,) = world.claim(world.worker())
    world.store.queue.settle([Finished(claimed.live, Lost(), world.now - SECOND)])
    (ended,) = world.history(job_id)
    assert ended.finished_at == ended.started_at == world.now


# -- the fence


@pytest.mark.parametrize("plain", [True, False])
def test_of_two_workers_with_the_same_number_only_the_holder_settles(world, plain):
    """A failover lost the claim of the first; the second got the same number."""
    (job_id,) = world.enqueue()
    first, second = world.worker(), world.worker()
    (claimed,) = world.claim(first)
    world.sql("UPDATE {live} SET worker_id = :worker", worker=second)
    mine = Finished(claimed.live, DONE, world.now, claimed.definition if plain else None)
    settled = world.store.queue.settle([mine])
    assert (settled.plain, settled.changes, len(settled.refused)) == ((), (), 1)
    (live,) = world.lives(job_id)
    assert live.worker_id == second
    theirs = Finished(live, DONE, world.now, claimed.definition if plain else None)
    settled = world.store.queue.settle([theirs])
    assert len(settled.plain) + len(settled.changes) == 1
    world.check()
