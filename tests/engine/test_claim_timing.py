"""When a claim is worth its while."""

import pytest

from ostinato.engine.claim_timing import Lookout


class Seconds:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds():
    return Seconds()


@pytest.fixture
def lookout(seconds):
    """That has just looked, with room left, and knows of nothing before ten seconds."""
    lookout = Lookout(seconds)
    lookout.look()
    lookout.seen(10.0, cramped=False)
    return lookout


def test_the_first_look_is_always_worthwhile(seconds):
    assert Lookout(seconds).worthwhile(room=1)
    assert Lookout(seconds).pause == 0


def test_who_saw_nothing_looks_when_the_time_has_come(lookout, seconds):
    assert not lookout.worthwhile(room=5)
    seconds.now += 4
    assert (lookout.worthwhile(room=5), lookout.pause) == (False, 6)
    seconds.now += 6
    assert (lookout.worthwhile(room=5), lookout.pause) == (True, 0)


def test_who_is_called_looks_at_once(lookout):
    lookout.call()
    assert (lookout.worthwhile(room=5), lookout.pause) == (True, 0)


def test_a_call_during_a_look_is_for_the_next(lookout):
    lookout.look()
    lookout.call()
    lookout.seen(10.0, cramped=False)
    assert lookout.worthwhile(room=5)


@pytest.mark.parametrize(
    ("cramped", "room", "worthwhile"), [(True, 1, True), (True, 0, False), (False, 1, False)]
)
def test_room_matters_to_who_had_none(lookout, cramped, room, worthwhile):
    lookout.look()
    lookout.seen(10.0, cramped=cramped)
    assert lookout.worthwhile(room=room) is worthwhile
