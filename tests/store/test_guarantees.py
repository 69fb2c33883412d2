"""The guarantees under races, with real threads; and checks that these tests would notice a broken one.

A round is one race: two or three calls begin at the same instant. Whichever wins, the result must be the same.
"""

from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from random import Random
from threading import Event as Flag
from threading import Thread

import pytest

from ostinato.core import lifecycle
from ostinato.core.errors import Conflict, NotFound, StoreUnavailable
from ostinato.core.model import Finished, Status
from ostinato.core.outcome import Deferred, Interrupted
from ostinato.core.policy import Overlap
from ostinato.store import locking, settling
from tests.build import HOUR, MINUTE, NOW, SECOND
from tests.store.conftest import DONE, FAILURE, together


@pytest.fixture
def rounds(world):
    """Writers of SQLite wait for each other anyway."""
    return range(100 if world.on_postgres else 20)


@pytest.fixture
def pair(world):
    """Two processes."""
    return world.another(), world.another()


# -- G8: operators win every race


def test_g8_nothing_starts_after_a_pause_was_acknowledged(world, pair, rounds):
    operator, other = pair
    worker = world.worker()
    for _ in rounds:
        job_id = world.add_one(every=HOUR)
        world.advance(HOUR)
        world.fire()
        _, claimed = together(
            lambda j=job_id: world.command(j, "pause", store=operator),
            lambda: world.claim(worker, store=other),
        )
        live = world.lives(job_id)
        assert [each.worker_id for each in live] == [worker] * len(claimed)  # what started was started before
        assert world.claim(worker) == []
        assert len(world.skips(job_id)) + len(claimed) == 1
        world.settle(claimed, FAILURE)
        assert world.lives(job_id) == ()
        world.command(job_id, "delete")
    world.check()


def test_g8_a_cancelled_job_stays_cancelled_whatever_its_run_comes_to(world, pair, rounds):
    operator, other = pair
    worker = world.worker()
    random = Random(1)
    for _ in rounds:
        job_id = world.enqueue(max_retries=5)[0]
        claimed = world.claim(worker)
        outcome = random.choice([FAILURE, Interrupted(), Deferred(NOW + HOUR)])
        finished = [Finished(each.live, outcome, world.now) for each in claimed]
        together(
            lambda j=job_id: world.command(j, "cancel", store=operator),
            lambda f=finished: other.queue.settle(f),
        )
        assert world.status(job_id) is Status.CANCELLED
        assert world.lives(job_id) == ()
        assert len(world.history(job_id)) in (1, 2)
    assert world.claim(worker) == []
    world.check()


def test_g8_nothing_is_fired_for_a_job_that_was_deleted(world, pair, rounds):
    operator, other = pair
    worker = world.worker()
    for _ in rounds:
        job_id = world.add_one(every=HOUR)
        world.advance(HOUR)
        together(
            lambda j=job_id: world.command(j, "delete", store=operator),
            lambda: other.queue.fire_due(world.clock, SECOND, 10),
        )
        assert world.claim(worker) == []
        assert world.fire() == []
        assert world.store.history.live(10, job_id=job_id) == []
    assert world.store.history.remove_deleted(limit=1000) == len(rounds)
    world.check()


def test_g8_nothing_of_a_queue_starts_after_its_pause_was_acknowledged(world, pair, rounds):
    operator, other = pair
    worker = world.worker()
    workers = operator.workers
    for _ in rounds:
        world.enqueue(3)
        together(
            lambda: workers.pause_queue("default", world.now, "ops"),
            lambda: world.claim(worker, limit=1, store=other),
            lambda: world.claim(worker, limit=1),
        )
        held = sum(live.worker_id is not None for live in world.store.history.live(10))
        assert world.claim(worker, limit=1) == []
        assert sum(live.worker_id is not None for live in world.store.history.live(10)) == held
        workers.resume_queue("default", world.now, "ops")
        world.claim(worker)
        world.store.queue.settle([Finished(live, DONE, world.now) for live in world.store.history.live(10)])
    world.check()


def test_g8_a_pause_does_not_starve_while_many_claim(postgres_world):
    """Shared locks could keep an exclusive one waiting for ever."""
    world = postgres_world
    stop = Flag()
    claimers = [(world.another(), world.worker()) for _ in range(4)]

    def claim(store, worker):
        while not stop.is_set():
            world.claim(worker, store=store)

    threads = [Thread(target=claim, args=each) for each in claimers]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            world.store.workers.pause_queue("default", world.now, "ops")
            world.store.workers.resume_queue("default", world.now, "ops")
    finally:
        stop.set()
        for thread in threads:
            thread.join()


# -- everything at once


def test_everybody_at_once_leaves_everything_in_order(postgres_world):
    """No deadlock (locks have one order), no attempt twice, counters as in history."""
    world = postgres_world
    recurring = [
        world.add_one(every=SECOND, overlap=overlap, max_overlap=3, max_retries=1, key=f"{n}-{overlap}")
        for n in range(6)
        for overlap in Overlap
    ]
    world.enqueue(300, max_retries=2)
    world.store.workers.bound_queue("narrow", 2, world.now, "ops")
    stores = [world.another() for _ in range(6)]
    ticks = count()
    deadlocks = []

    def times(n, act):
        for _ in range(n):
            with suppress(Conflict, NotFound):
                try:
                    act()
                except StoreUnavailable as error:
                    deadlocks.append(str(error))

    def work(store, seed):
        random, worker = Random(seed), world.worker(store=store)
        held = []

        def turn():
            held.extend(world.claim(worker, limit=10, store=store))
            some = [held.pop() for _ in range(min(len(held), random.randint(0, 12)))]
            outcomes = [DONE, DONE, FAILURE, Interrupted()]
            store.queue.settle([Finished(c.live, random.choice(outcomes), world.now) for c in some])
            store.queue.save_progress([(c.live.id, c.live.fence, "{}") for c in held])

        times(60, turn)
        store.workers.leave(worker, world.now)

    def dispatch(store):
        def step():
            next(ticks)
            now = world.advance(SECOND)
            store.queue.fire_due(lambda: now, SECOND / 2, 20)
            store.queue.time_has_come(now, 20)

        times(60, step)

    def operate(store, seed):
        random = Random(seed)
        commands = ["pause", "resume", "pause", "resume", "cancel", "delete"]

        def ask():
            world.command(random.choice(recurring), random.choice(commands), store=store)

        times(120, ask)

    def sweep(store):
        def step():
            lost = world.worker(store=store)
            world.claim(lost, limit=3, store=store)
            (seen,) = [lease for lease in store.workers.leases() if lease.worker_id == lost]
            store.workers.close_lost(seen, world.now)
            store.workers.settle_leftovers(world.now)

        times(25, step)

    together(
        lambda: work(stores[0], 1), lambda: work(stores[1], 2), lambda: dispatch(stores[2]),
        lambda: dispatch(stores[3]), lambda: operate(stores[4], 3), lambda: sweep(stores[5]),
    )  # fmt: skip
    assert deadlocks == []
    world.check()
    held = [live for live in world.store.history.live(10_000) if live.worker_id is not None]
    assert held == []


# -- would these tests notice? (the code is broken on purpose)


@contextmanager
def broken(monkeypatch, where, what, by):
    monkeypatch.setattr(where, what, by)
    yield
    monkeypatch.undo()


def late_results_taken(world):
    """A worker has lost its execution, another runs it, and then the first one's result arrives."""
    job_id = world.add_one(every=HOUR)
    world.advance(HOUR)
    world.fire()
    late = world.claim(world.worker())
    world.command(job_id, "release", world.lives(job_id)[0])
    world.claim(world.worker())
    return len(world.settle(late).changes)


def test_without_the_fence_a_late_result_would_be_taken(world, monkeypatch):
    assert late_results_taken(world) == 0

    def unfenced(lives, each):
        return next((live for live in lives.get(each.live.job_id, ()) if live.id == each.live.id), None)

    with broken(monkeypatch, settling, "_still_held", unfenced):
        assert late_results_taken(world) == 1


def test_a_settle_in_two_transactions_would_be_noticed_after_a_crash(world, monkeypatch):
    """Counters first, history later, and a crash in between."""
    world.enqueue(3)
    claimed = world.claim(world.worker())

    def crash(tx, changes):
        raise KeyboardInterrupt

    with broken(monkeypatch, locking, "_save_the_rest", crash), pytest.raises(KeyboardInterrupt):
        world.settle(claimed)
    assert world.store.audit.problems() == []  # in one transaction: nothing happened

    def only_counters(tx, changes):
        return None

    with broken(monkeypatch, locking, "_save_the_rest", only_counters):
        world.settle(claimed)
    assert len(world.store.audit.problems()) == 3


def test_a_skip_that_is_not_recorded_would_be_noticed(world, monkeypatch):
    with broken(monkeypatch, locking, "_save_skips", lambda tx, skips: None):
        world.add_one(every=MINUTE)
        world.advance(HOUR)
        world.fire()
    counted, recomputed = world.store.audit.problems()
    assert "skipped" in counted
    assert "no record" in recomputed


def test_an_execution_that_is_recorded_twice_would_be_refused_by_the_database(world, monkeypatch):
    """G4."""
    job_id = world.enqueue()[0]
    claimed = world.claim(world.worker())

    def twice(job, *rest):
        change = lifecycle.settle(job, *rest)
        return replace(change, ended=(*change.ended, replace(change.ended[0], id=world.chance.id(NOW))))

    with broken(monkeypatch, settling, "settle", twice):
        assert len(world.settle(claimed).left) == 1
    assert world.history(job_id) == []
    world.check()
