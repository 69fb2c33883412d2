"""What is reckoned is what walking through all due times comes to, in zones that jump and within windows."""

from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ostinato.core import schedule as when
from ostinato.core.forecast import Grid, load
from ostinato.core.policy import Policies
from ostinato.core.schedule import Cron, Every, Once
from ostinato.core.times import Window
from tests.build import DAY, HOUR, MINUTE, NOW

WEEK = Grid(NOW, HOUR, 7 * 24)


def walked(schedule, policies, next_due_at, grid):
    counts = [0] * grid.count
    due = next_due_at
    anchor = next_due_at - schedule.period if isinstance(schedule, Every) else next_due_at
    while due is not None and due < grid.end:
        ended = policies.end_at is not None and due > policies.end_at
        if due >= grid.start and not ended and (policies.window is None or policies.window.contains(due)):
            counts[grid.place(due)] += 1
        due = when.next_after(schedule, anchor, due)
    return counts


EXPRESSIONS = ["0 9 * * *", "*/15 * * * *", "30 2 * * *", "0 */6 * * mon-fri", "5,35 1-4 * * *", "0 0 1 * *"]
ZONES = ["UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]
STARTS = [
    NOW,
    datetime(2026, 3, 27, 5, tzinfo=UTC),
    datetime(2026, 10, 23, 5, tzinfo=UTC),
    datetime(2026, 4, 2, tzinfo=UTC),
]
SCHEDULES = some.one_of(
    some.builds(Cron, some.sampled_from(EXPRESSIONS), some.sampled_from(ZONES)),
    some.sampled_from([Every(n) for n in (7 * MINUTE, 30 * MINUTE, HOUR, 90 * MINUTE, 6 * HOUR, DAY, 5 * DAY)]),
)


@given(
    schedule=SCHEDULES,
    start=some.sampled_from(STARTS),
    late=some.timedeltas(-DAY, 2 * DAY),
    end=some.none() | some.timedeltas(DAY, 6 * DAY),
    step=some.sampled_from([HOUR, 15 * MINUTE]),
)
def test_it_is_what_walking_comes_to(schedule, start, late, end, step):
    grid = Grid(start, step, 5 * DAY // step)
    policies = Policies(end_at=None if end is None else start + end)
    anchor = start + late
    due = when.next_after(schedule, anchor, anchor)
    assert list(load(schedule, policies, due, grid)) == walked(schedule, policies, due, grid)


@pytest.mark.parametrize("hours", [(time(9), time(17)), (time(22), time(6)), (time(8, 30), time(9, 45))])
def test_a_window_lets_through_what_is_inside(hours):
    policies = Policies(window=Window(start=hours[0], end=hours[1], timezone="Europe/Paris"))
    for schedule in (Every(10 * MINUTE), Cron("*/20 * * * *"), Every(3 * HOUR)):
        due = when.next_after(schedule, NOW, NOW)
        assert list(load(schedule, policies, due, WEEK)) == walked(schedule, policies, due, WEEK)


def test_a_run_once_is_there_once():
    assert sum(load(Once(NOW + 5 * HOUR), Policies(), NOW + 5 * HOUR, WEEK)) == 1
    assert sum(load(Once(NOW + 30 * DAY), Policies(), NOW + 30 * DAY, WEEK)) == 0


def test_a_fold_has_both_passes_and_a_gap_none():
    autumn, spring = datetime(2026, 10, 25, 0, tzinfo=UTC), datetime(2026, 3, 29, 0, tzinfo=UTC)
    halves = Cron("*/30 * * * *", "Europe/Paris")
    assert list(load(halves, Policies(), autumn, Grid(autumn, HOUR, 4))) == [2, 2, 2, 2]
    at_half_past_two = Cron("30 2 * * *", "Europe/Paris")
    assert list(load(at_half_past_two, Policies(), autumn, Grid(autumn, HOUR, 3))) == [1, 0, 0]
    assert list(load(at_half_past_two, Policies(), spring, Grid(spring, HOUR, 3))) == [0, 1, 0]


def test_a_week_of_ten_thousand_jobs_is_a_matter_of_a_few_schedules():
    assert timedelta(hours=WEEK.count) == 7 * DAY
    assert sum(load(Cron("* * * * *"), Policies(), NOW, WEEK)) == 7 * 24 * 60
