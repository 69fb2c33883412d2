"""Which transactions ring the doorbell."""

import pytest

from tests.build import HOUR, MINUTE, NOW
from tests.store.conftest import DONE, FAILURE, edited


def with_bell(world, act, rings=True):
    """Whether the transaction of `act` rings."""
    database, heard = world.store.database, []
    write = database.write

    def listening(*args):
        context = write(*args)

        class Listening:
            def __enter__(self):
                self.tx = context.__enter__()
                return self.tx

            def __exit__(self, *error):
                heard.append(self.tx.rings)
                return context.__exit__(*error)

        return Listening()

    database.write = listening
    try:
        result = act()
    finally:
        del database.write
    assert any(heard) is rings
    return result


def test_the_bell_rings_for_whoever_has_something_to_do(world):
    with_bell(world, lambda: world.add(every=HOUR))
    with_bell(world, world.enqueue)
    worker = world.worker()
    claimed = with_bell(world, lambda: world.claim(worker), rings=False)
    with_bell(world, lambda: world.settle(claimed), rings=False)
    world.advance(HOUR)
    with_bell(world, world.fire)
    with_bell(world, lambda: world.settle(world.claim(worker), FAILURE))
    world.advance(MINUTE)
    with_bell(world, lambda: world.store.queue.time_has_come(world.now, 10))
    with_bell(world, lambda: world.store.queue.time_has_come(world.now, 10), rings=False)
    with_bell(world, lambda: world.store.workers.leave(worker, world.now), rings=False)


def test_the_bell_rings_for_what_is_handed_back_let_in_or_named_by_a_settle(world):
    worker = world.worker()
    world.enqueue()
    world.claim(worker)
    with_bell(world, lambda: world.store.workers.leave(worker, world.now))
    worker = world.worker()
    world.settle(world.claim(worker))
    world.add(every=HOUR, fixed_delay=True)
    world.advance(HOUR)
    world.fire()
    claimed = world.claim(worker)
    with_bell(world, lambda: world.settle(claimed, DONE))


@pytest.mark.parametrize("command", ["resume", "edit"])
def test_the_bell_rings_for_a_new_next_time(world, command):
    job_id = world.add_one(every=HOUR)
    if command == "resume":
        with_bell(world, lambda: world.command(job_id, "pause"), rings=False)
        with_bell(world, lambda: world.command(job_id, "resume"))
    else:
        wanted = edited(world.job(job_id).definition, name="other")
        with_bell(world, lambda: world.command(job_id, "edit", wanted))


def test_a_bounded_queue_wakes_the_dispatcher_when_it_has_room_and_not_when_it_is_full(world):
    world.add(2, every=MINUTE)
    world.store.workers.bound_queue("default", 1, world.now, "ops")
    assert world.store.queue.next_wake() == NOW + MINUTE
    world.advance(MINUTE)
    world.fire()
    assert world.store.queue.next_wake() is None
    with_bell(world, lambda: world.claim(world.worker()))
    assert world.store.queue.next_wake() == NOW + MINUTE
