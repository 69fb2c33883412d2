"""Jobs that run after others: once per completion, also across crashes."""

import pytest

from ostinato.core.model import Status
from tests.build import HOUR, SECOND
from tests.store.conftest import together


class Pair:
    """A recurring job and one that follows it."""

    def __init__(self, world):
        self.world = world
        self.me = world.worker()
        self.first = world.add_one(every=HOUR)
        change = world.new(manual=True, after="first", max_retries=0)
        (self.second,) = world.store.jobs.add([change], after={change.job.id: self.first})

    def complete(self, outcome=None):
        """Run the first job once more."""
        self.world.advance(HOUR)
        self.world.fire()
        claimed = [each for each in self.world.claim(self.me) if each.live.job_id == self.first]
        self.world.settle(claimed, *([] if outcome is None else [outcome]))

    def follow(self, store=None):
        return len((store or self.world.store).queue.follow(self.world.now).changes)

    def run_off(self):
        claimed = [each for each in self.world.claim(self.me) if each.live.job_id == self.second]
        self.world.settle(claimed)
        return len(claimed)


@pytest.fixture
def pair(world):
    return Pair(world)


def test_a_completion_is_followed_once(world, pair):
    assert pair.follow() == 0
    pair.complete()
    assert (pair.follow(), pair.follow()) == (1, 0)
    assert world.status(pair.second) is Status.PENDING
    assert (pair.run_off(), pair.follow()) == (1, 0)
    assert world.facts(pair.second).completed == 1
    world.check()


def test_a_failure_is_not_followed(world, pair):
    from tests.store.conftest import FAILURE

    pair.complete(FAILURE)
    assert pair.follow() == 0


def test_two_dispatchers_follow_a_completion_once(world, pair):
    others = [world.another(), world.another(), world.another()]
    for _ in range(3):
        pair.complete()
        found = together(*(lambda s=store: pair.follow(s) for store in others))
        assert sum(found) == 1
        assert pair.run_off() == 1
    assert world.facts(pair.second).last_number == 3


def test_completions_that_come_faster_wait_and_none_is_lost(world, pair):
    for _ in range(5):
        pair.complete()
    ran = 0
    for _ in range(10):
        pair.follow()
        ran += pair.run_off()
    assert (ran, world.facts(pair.second).completed) == (5, 5)
    world.check()


def test_what_completed_before_does_not_count(world):
    me = world.worker()
    first = world.add_one(every=HOUR)
    world.advance(HOUR)
    world.run_all(me)
    change = world.new(manual=True, after="first")
    world.store.jobs.add([change], after={change.job.id: first})
    assert world.store.queue.follow(world.now).changes == ()


def test_a_paused_one_lets_it_pass_and_says_so(world, pair):
    world.command(pair.second, "pause")
    pair.complete()
    assert (pair.follow(), pair.follow()) == (1, 0)
    assert len(world.events("job.passed_over", pair.second)) == 1
    world.advance(SECOND)
    world.command(pair.second, "resume")
    assert (pair.follow(), world.lives(pair.second)) == (0, ())


def test_nobody_follows_where_nobody_is_to_follow(world):
    world.add_one(every=HOUR)
    assert not world.store.queue.follow(world.now).any


def test_a_deleted_one_is_forgotten(world, pair):
    world.command(pair.second, "delete")
    pair.complete()
    pair.follow()
    world.store.history.remove_deleted()
    assert world.sql("SELECT count(*) FROM {dependencies}") == [(0,)]
