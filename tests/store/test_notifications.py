"""Which transactions notify the listeners."""

import pytest

from tests.build import HOUR, MINUTE, NOW
from tests.store.conftest import DONE, FAILURE, edited


def assert_notifies(world, act, expected=True):
    """Assert that the transaction of `act` notifies, or does not."""
    database, heard = world.store.database, []
    write = database.write

    def listening(*args):
        context = write(*args)

        class Listening:
            def __enter__(self):
                self.tx = context.__enter__()
                return self.tx

            def __exit__(self, *error):
                heard.append(self.tx.notifies)
                return context.__exit__(*error)

        return Listening()

    database.write = listening
    try:
        result = act()
    finally:
        del database.write
    assert any(heard) is expected
    return result


def test_new_work_notifies(world):
    assert_notifies(world, lambda: world.add(every=HOUR))
    assert_notifies(world, world.enqueue)
    worker = world.worker()
    claimed = assert_notifies(world, lambda: world.claim(worker), expected=False)
    assert_notifies(world, lambda: world.settle(claimed), expected=False)
    world.advance(HOUR)
    assert_notifies(world, world.fire)
    assert_notifies(world, lambda: world.settle(world.claim(worker), FAILURE))
    world.advance(MINUTE)
    assert_notifies(world, lambda: world.store.queue.time_has_come(world.now, 10))
    assert_notifies(world, lambda: world.store.queue.time_has_come(world.now, 10), expected=False)
    assert_notifies(world, lambda: world.store.workers.leave(worker, world.now), expected=False)


def test_released_admitted_and_newly_due_work_notifies(world):
    worker = world.worker()
    world.enqueue()
    world.claim(worker)
    assert_notifies(world, lambda: world.store.workers.leave(worker, world.now))
    worker = world.worker()
    world.settle(world.claim(worker))
    world.add(every=HOUR, fixed_delay=True)
    world.advance(HOUR)
    world.fire()
    claimed = world.claim(worker)
    assert_notifies(world, lambda: world.settle(claimed, DONE))


@pytest.mark.parametrize("command", ["resume", "edit"])
def test_a_new_next_time_notifies(world, command):
    job_id = world.add_one(every=HOUR)
    if command == "resume":
        assert_notifies(world, lambda: world.command(job_id, "pause"), expected=False)
        assert_notifies(world, lambda: world.command(job_id, "resume"))
    else:
        wanted = edited(world.job(job_id).definition, name="other")
        assert_notifies(world, lambda: world.command(job_id, "edit", wanted))


def test_a_bounded_queue_wakes_the_dispatcher_when_it_has_room_and_not_when_it_is_full(world):
    world.add(2, every=MINUTE)
    world.store.workers.bound_queue("default", 1, world.now, "ops")
    assert world.store.queue.next_wake() == NOW + MINUTE
    world.advance(MINUTE)
    world.fire()
    assert world.store.queue.next_wake() is None
    assert_notifies(world, lambda: world.claim(world.worker()))
    assert world.store.queue.next_wake() == NOW + MINUTE
