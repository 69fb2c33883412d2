"""A job in each of its states."""

from ostinato.core.policy import WhenExhausted
from tests.build import HOUR, NOW
from tests.core.life import Life

FAIL = {"max_retries": 0, "when_exhausted": WhenExhausted.FAIL}


def a_life(state, **given):
    """A job in a state, at one o'clock; recurring unless it says otherwise."""
    life = Life(**{"every": HOUR} | given)
    life.turn(HOUR)
    match state.split():
        case ["scheduled"]:
            life.run_one()
        case ["queued"]:
            pass
        case ["backoff"]:
            life.fail()
        case ["running"]:
            life.claim()
        case ["paused"]:
            life.run_one()
            life.pause()
        case ["paused", "running"]:
            life.claim()
            life.pause()
        case ["completed"]:
            life.edit(end_at=NOW + HOUR)
            life.run_one()
        case ["failed"]:
            life.edit(**FAIL)
            life.fail()
        case ["cancelled"]:
            life.cancel()
        case ["deleted"]:
            life.delete()
    return life
