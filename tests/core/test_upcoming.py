"""When a job will come round next: within its bounds, its window and its repeats."""

from datetime import timedelta

import pytest

from ostinato.core.forecast import upcoming
from ostinato.core.model import Ending
from ostinato.core.times import Window
from tests.build import DAY, HOUR, MINUTE, NOW, a_job

MORNING = Window.from_json({"from": "09:00", "to": "11:30"})


def hours(job, n=4, now=NOW):
    """The next times, in hours from NOW."""
    return [(at - NOW) / HOUR for at in upcoming(job, now, n)]


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({"every": HOUR}, [1, 2, 3, 4]),
        ({"every": HOUR, "last_due_at": NOW + HOUR}, [2, 3, 4, 5]),
        ({"every": HOUR, "end_at": NOW + 2 * HOUR}, [1, 2]),
        ({"every": HOUR, "start_at": NOW + 5 * HOUR}, [5, 6, 7, 8]),
        ({"every": HOUR, "total_repeats": 5, "repeats_done": 3}, [1, 2]),
        ({"every": HOUR, "total_repeats": 5, "repeats_done": 5}, []),
        ({"every": HOUR, "next_due_at": NOW + 10 * HOUR, "reset_at": NOW + 10 * HOUR}, [10, 11, 12, 13]),
        ({"every": HOUR, "window": MORNING}, [21, 22, 23, 45]),
        ({"cron": "0 3 * * *", "window": MORNING}, []),
        ({"cron": "0 9 * * *"}, [21, 45, 69, 93]),
        ({"at": NOW + HOUR}, [1]),
        ({"at": NOW + HOUR, "window": MORNING}, [21]),
        ({"at": NOW + HOUR, "last_due_at": NOW + HOUR, "next_due_at": None}, []),
        ({"manual": True}, []),
        ({"every": HOUR, "paused_at": NOW}, []),
        ({"every": HOUR, "cancelled_at": NOW}, []),
        ({"every": HOUR, "ended_at": NOW, "ended_as": Ending.FAILED}, []),
    ],
    ids=str,
)
def test_the_next_times(job, expected):
    assert hours(a_job(**job)) == expected


def test_what_has_passed_is_not_to_come():
    job = a_job(every=HOUR)
    assert hours(job, 2, now=NOW + 5 * HOUR) == [6, 7]
    assert hours(job, 0) == []
    assert len(upcoming(a_job(every=MINUTE), NOW, 250)) == 250
    assert upcoming(a_job(every=365 * DAY), NOW, 1) == [NOW + timedelta(days=365)]
