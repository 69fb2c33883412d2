"""Queues with a bound."""

from collections import Counter

from tests.build import AHEAD, MINUTE, NOW, SECOND
from tests.store.conftest import together


def test_the_schedule_fires_into_a_bounded_queue_only_while_there_is_room(world):
    world.add(10, every=MINUTE)
    world.store.workers.bound_queue("default", 3, world.now, "ops")
    world.advance(MINUTE)
    assert len(world.fire()) == 3
    assert world.fire() == []
    worker = world.worker()
    world.claim(worker, limit=2)
    assert len(world.fire()) == 2


def test_a_bounded_queue_is_filled_by_priority_then_the_oldest_first(world):
    late = world.add_one(every=MINUTE, priority=5)
    world.advance(SECOND)
    later = world.add_one(every=MINUTE, priority=5)
    urgent = world.add_one(every=MINUTE, priority=1)
    world.store.workers.bound_queue("default", 1, world.now, "ops")
    world.advance(2 * MINUTE)
    order = []
    worker = world.worker()
    for _ in range(3):
        order += [change.job.id for change in world.fire()]
        world.claim(worker)
    assert order == [urgent, late, later]


def test_with_one_worker_and_room_for_5_all_20_sources_run_once_before_any_runs_twice(world):
    """Seed 000's example."""
    ids = world.add(20, every=10 * SECOND, queue="sources")
    world.store.workers.bound_queue("sources", 5, world.now, "ops")
    worker = world.worker()
    runs = []
    world.advance(10 * SECOND)
    for _ in range(60):
        world.fire()
        assert len(world.store.history.live(100)) <= 6
        (claimed,) = world.claim(worker, limit=1)
        runs.append(claimed.live.job_id)
        world.advance(SECOND)
        world.fire()
        world.settle([claimed])
    assert [set(Counter(runs[n : n + 20]).values()) for n in (0, 20, 40)] == [{1}] * 3
    assert set(runs) == set(ids)
    world.check()


def test_two_dispatchers_never_fill_a_bounded_queue_beyond_its_bound(world):
    world.add(100, every=MINUTE)
    world.store.workers.bound_queue("default", 7, world.now, "ops")
    stores = [world.another() for _ in range(3)]
    world.advance(MINUTE)
    worker = world.worker()
    for _ in range(8):
        together(*[lambda s=s: s.queue.fire_due(world.clock, AHEAD, 100) for s in stores])
        assert len(world.claim(worker)) == 7


def test_a_full_queue_holds_nothing_else_back(world):
    world.add(50, every=MINUTE, queue="narrow")
    wide = world.add_one(every=2 * MINUTE, queue="wide")
    world.store.workers.bound_queue("narrow", 1, world.now, "ops")
    world.advance(MINUTE)
    world.fire()
    assert world.store.queue.next_wake() == NOW + 2 * MINUTE
    world.advance(MINUTE)
    assert [change.job.id for change in world.fire(limit=10)] == [wide]


def test_a_run_by_hand_enters_a_full_queue(world):
    job_id = world.add_one(every=MINUTE)
    world.store.workers.bound_queue("default", 1, world.now, "ops")
    world.enqueue(3)
    world.command(job_id, "run", None)
    assert len(world.claim(world.worker())) == 4
