"""The gate of limits, on both databases: by key, in order, exact across processes, and free for all others."""

import pytest

from ostinato.core.limits import START
from ostinato.core.model import Status, WaitsFor
from tests.build import HOUR, MINUTE, SECOND
from tests.store.conftest import FAILURE, together


def through(world, store=None):
    return (store or world.store).queue.let_through(world.now)


def waits(world, ids):
    return [world.lives(job_id)[0].waits_for for job_id in ids]


def test_without_limits_nobody_waits_and_the_gate_writes_nothing(world):
    world.enqueue(3)
    assert through(world).passed == 0
    assert world.sql("SELECT count(*) FROM {limits}") == [(0,)]
    assert len(world.claim(world.worker())) == 3


def test_so_many_start_at_once_and_a_settle_lets_the_next_one_in(world):
    ids = world.enqueue(5, max_concurrency=2)
    worker = world.worker()
    assert world.claim(worker) == []
    assert world.status(ids[0]) is Status.PENDING
    assert through(world).passed == 2
    claimed = world.claim(worker)
    assert len(claimed) == 2
    assert through(world).passed == 0
    world.settle(claimed[:1])
    assert through(world).passed == 1
    world.settle([*claimed[1:], *world.claim(worker)])
    assert through(world).passed == 2
    world.settle(world.claim(worker))
    assert [world.status(job_id) for job_id in ids] == [Status.COMPLETED] * 5
    world.check()


def test_each_key_has_places_of_its_own(world):
    tenants = ["acme", "acme", "acme", "blue", "blue"]
    for tenant in tenants:
        world.enqueue(max_concurrency=1, concurrency_key="{args[tenant]}", args=f'{{"tenant": "{tenant}"}}')
    assert through(world).passed == 2
    keys = [each.live.limit_key for each in world.claim(world.worker())]
    assert sorted(keys) == ["/work:acme", "/work:blue"]


def test_the_urgent_go_first_then_the_oldest(world):
    late = world.enqueue(max_concurrency=1, priority=5)[0]
    world.advance(SECOND)
    urgent = world.enqueue(max_concurrency=1, priority=1)[0]
    through(world)
    assert waits(world, [late, urgent]) == [WaitsFor.LIMIT, None]


def test_a_rate_lets_so_many_through_and_says_when_there_is_more(world):
    world.enqueue(5, rate_limit="2/m")
    worker = world.worker()
    gate = through(world)
    assert (gate.passed, gate.next_at) == (2, world.now + MINUTE + START)
    world.settle(world.claim(worker))
    assert through(world).passed == 0
    world.now = gate.next_at
    assert through(world).passed == 2


def test_what_comes_later_waits_for_its_time_and_then_for_the_gate(world):
    (job_id,) = world.add(at=world.now + HOUR, max_concurrency=1)
    assert through(world).passed == 0
    world.advance(HOUR)
    world.fire()
    assert waits(world, [job_id]) == [WaitsFor.LIMIT]
    assert through(world).passed == 1


def test_a_row_fired_ahead_of_its_time_is_not_let_through_early(world):
    job_id = world.add_one(every=HOUR, max_concurrency=1)
    world.advance(HOUR - SECOND / 4)
    world.fire(ahead=SECOND / 2)
    gate = through(world)
    assert (gate.passed, gate.next_at) == (0, world.lives(job_id)[0].run_at)


def test_a_retry_gives_its_place_back_while_it_waits(world):
    ids = world.enqueue(2, max_concurrency=1, max_retries=1)
    worker = world.worker()
    through(world)
    world.settle(world.claim(worker), FAILURE)
    assert through(world).passed == 1  # the other one
    world.settle(world.claim(worker))
    world.advance(HOUR)
    world.store.queue.time_has_come(world.now, 10)
    assert [live.waits_for for job_id in ids for live in world.lives(job_id)] == [WaitsFor.LIMIT]
    assert through(world).passed == 1


def test_what_nobody_knows_gives_its_place_back(world):
    world.enqueue(1, task="strange", max_concurrency=1, priority=1)
    through(world)
    assert world.claim(world.worker()) == []
    (parked,) = world.store.history.live(10)
    assert parked.waits_for is WaitsFor.TASK
    world.claim(world.worker("strange"), "strange")
    (unparked,) = world.store.history.live(10)
    assert unparked.waits_for is WaitsFor.LIMIT  # and passes the gate again
    assert through(world).passed == 1


@pytest.mark.parametrize("act", ["cancel", "delete"])
def test_g8_what_is_taken_back_frees_its_place(world, act):
    first, second = world.enqueue(2, max_concurrency=1)
    through(world)
    ahead = first if world.lives(first)[0].waits_for is None else second
    world.command(ahead, act)
    assert through(world).passed == 1
    world.check()


def test_several_gates_at_once_let_no_more_through_than_one(world):
    world.enqueue(40, max_concurrency=7)
    stores = [world.another() for _ in range(3)]
    together(*[lambda s=s: through(world, s) for s in stores])
    assert len(world.claim(world.worker())) == 7


def test_keys_are_found_one_after_the_other(world):
    world.enqueue(300, max_concurrency=1)
    world.enqueue(1, max_concurrency=1, concurrency_key="b")
    assert world.store.queue._keys("") == ["/work", "/work:b"]
    assert through(world).passed == 2


def test_a_key_is_forgotten_when_nothing_of_it_is_live_and_its_rate_is_long_past(world):
    world.enqueue(1, max_concurrency=1)
    world.enqueue(1, rate_limit="1/m", concurrency_key="b")
    through(world)
    world.advance(SECOND)
    assert world.store.queue.forget_limits(world.now) == 0
    world.settle(world.claim(world.worker()))
    assert world.store.queue.forget_limits(world.now) == 1
    world.advance(25 * HOUR)
    assert world.store.queue.forget_limits(world.now) == 1
    assert world.sql("SELECT count(*) FROM {limits}") == [(0,)]
