"""Searches for due times that are stopped: the answer has the times found so far, and says so."""

from itertools import count

from ostinato.core.forecast import foreseen
from ostinato.core.schedule import Cron, due_times, no_limit, search
from ostinato.core.times import Window
from tests.build import HOUR, NOW, a_job

RARE = Cron("0 0 29 2 */7")  # the 29th of February, on a Sunday
NEVER_OPEN = Window.from_json({"from": "09:00", "to": "11:30"})


def after(steps: int):
    """Expire after so many steps."""
    asked = count(1)
    return lambda: next(asked) >= steps


def test_a_search_without_limit_is_complete():
    found = due_times(RARE, NOW, NOW, 1000, no_limit)
    assert found.complete
    assert len(found.times) < 1000  # the calendar ends in 9999


def test_a_search_that_expires_has_what_it_found():
    whole = due_times(RARE, NOW, NOW, 1000, no_limit).times
    assert due_times(RARE, NOW, NOW, 1000, after(3)) == (whole[:3], False)


def test_a_search_that_found_enough_has_not_expired():
    assert due_times(RARE, NOW, NOW, 3, after(3)).complete
    assert search(iter([NOW]), 0, after(1)) == ([], True)


def test_a_search_that_finds_nothing_expires_too():
    """Each due time outside the window is a step: a schedule that never meets its window was searched to its end."""
    job = a_job(cron="0 3 * * *", window=NEVER_OPEN)
    assert foreseen(job, NOW, 4, after(2)) == ([], False)
    assert foreseen(job, NOW, 4, no_limit) == ([], True)
    assert foreseen(a_job(every=HOUR, paused_at=NOW), NOW, 4, after(1)) == ([], True)
