"""When a claim is due."""

import pytest

from ostinato.engine.claim_timing import ClaimTiming


class Seconds:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds():
    return Seconds()


@pytest.fixture
def timing(seconds):
    """Timing after a claim with room left that expects no work for ten seconds."""
    timing = ClaimTiming(seconds)
    timing.begin()
    timing.finish(10.0, cramped=False)
    return timing


def test_the_first_look_is_always_worthwhile(seconds):
    assert ClaimTiming(seconds).is_due(room=1)
    assert ClaimTiming(seconds).pause == 0


def test_who_saw_nothing_looks_when_the_time_has_come(timing, seconds):
    assert not timing.is_due(room=5)
    seconds.now += 4
    assert (timing.is_due(room=5), timing.pause) == (False, 6)
    seconds.now += 6
    assert (timing.is_due(room=5), timing.pause) == (True, 0)


def test_who_is_called_looks_at_once(timing):
    timing.notify()
    assert (timing.is_due(room=5), timing.pause) == (True, 0)


def test_a_call_during_a_look_is_for_the_next(timing):
    timing.begin()
    timing.notify()
    timing.finish(10.0, cramped=False)
    assert timing.is_due(room=5)


@pytest.mark.parametrize(("cramped", "room", "due"), [(True, 1, True), (True, 0, False), (False, 1, False)])
def test_room_matters_to_who_had_none(timing, cramped, room, due):
    timing.begin()
    timing.finish(10.0, cramped=cramped)
    assert timing.is_due(room=room) is due
