"""A job in each of its states, and one that uses its retries up."""

from ostinato.core.outcome import Error, Failed
from ostinato.core.policy import WhenExhausted
from tests.build import HOUR, NOW
from tests.core.life import Life

ONCE = {"at": NOW, "max_retries": 3}
FAIL = {"max_retries": 0, "when_exhausted": WhenExhausted.FAIL}
NO = Error("ValueError", "no", "Traceback …")
GIVE_UP = Failed(NO, final=True)


def due_once(**given):
    """A recurring job whose first due time has just come."""
    life = Life(**{"every": HOUR} | given)
    life.turn(HOUR)
    return life


def a_life(state, **given):
    """A job in a state, at one o'clock; recurring unless it says otherwise."""
    life = due_once(**given)
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


def a_source(**given):
    """Five failures in a period of six hours use its budget up."""
    waits = {"when_exhausted": WhenExhausted.WAIT_RESET, "retry_reset_period": 6 * HOUR, "max_retries": 5}
    return Life(**{"every": HOUR} | waits | given)


def use_up(life, failures=5):
    """Fail as often as there is budget for; the first failure starts the period."""
    for _ in range(failures):
        life.retry_comes()
        life.fail()
