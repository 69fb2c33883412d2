"""What comes of the due times of an absence, and of those outside the window."""

from datetime import time
from time import perf_counter

import pytest

from ostinato.core.model import Status
from ostinato.core.policy import CatchUp, Overlap
from ostinato.core.times import Window
from tests.build import DAY, HOUR, MINUTE, NOW, SECOND
from tests.core.life import Life, hours

DAYTIME = Window(start=time(9), end=time(17))


# -- catch-up

LATEST, ALL, NONE = ({"catch_up": each} for each in (CatchUp.LATEST, CatchUp.ALL, CatchUp.NONE))


@pytest.mark.parametrize(
    ("policies", "away", "runs", "skipped"),
    [
        # one due time: late, or missed
        (LATEST, HOUR + MINUTE, 1, []),
        (NONE, HOUR + MINUTE, 1, []),
        (ALL, HOUR + MINUTE, 1, []),
        (LATEST, HOUR + 2 * MINUTE, 1, []),
        (NONE, HOUR + 2 * MINUTE, None, [(1, 1, 1)]),
        (ALL, HOUR + 2 * MINUTE, 1, []),
        (NONE | {"late_after": 5 * MINUTE}, HOUR + 2 * MINUTE, 1, []),
        # many: all but the newest have been missed
        (LATEST, 5 * HOUR, 5, [(1, 4, 4)]),
        (LATEST, 5 * HOUR + 30 * MINUTE, 5, [(1, 4, 4)]),
        (NONE, 5 * HOUR, 5, [(1, 4, 4)]),
        (NONE, 5 * HOUR + 30 * MINUTE, None, [(1, 5, 5)]),
        (ALL, 5 * HOUR, 1, []),
        (ALL | {"catch_up_limit": 3}, 5 * HOUR + 30 * MINUTE, 3, [(1, 2, 2)]),
        # what is too old does not run
        (LATEST | {"catch_up_within": 40 * MINUTE}, 5 * HOUR + 30 * MINUTE, 5, [(1, 4, 4)]),
        (LATEST | {"catch_up_within": 30 * MINUTE}, 5 * HOUR + 30 * MINUTE, 5, [(1, 4, 4)]),
        (LATEST | {"catch_up_within": 20 * MINUTE}, 5 * HOUR + 30 * MINUTE, None, [(1, 5, 5)]),
        (LATEST | {"catch_up_within": SECOND}, 5 * HOUR + MINUTE, 5, [(1, 4, 4)]),
        (ALL | {"catch_up_within": 2 * HOUR}, 5 * HOUR + 30 * MINUTE, 4, [(1, 3, 3)]),
        (ALL | {"catch_up_within": 20 * MINUTE}, 5 * HOUR + 30 * MINUTE, None, [(1, 5, 5)]),
        (ALL | {"catch_up_within": SECOND}, 5 * HOUR + MINUTE, 5, [(1, 4, 4)]),
        (ALL | {"catch_up_within": 2 * HOUR, "catch_up_limit": 1}, 5 * HOUR + 30 * MINUTE, 5, [(1, 4, 4)]),
    ],
)
def test_after_an_absence_the_catch_up_policy_chooses_and_the_rest_is_one_skip(policies, away, runs, skipped):
    life = Life(every=HOUR, **policies)
    life.turn(away)
    assert [live.due_at for live in life.rows] == ([] if runs is None else [NOW + runs * HOUR])
    assert life.skipped == [("missed", NOW + a * HOUR, NOW + b * HOUR, n) for a, b, n in skipped]


def test_catch_up_all_runs_oldest_first_one_after_the_other_and_skips_none_for_overlap():
    life = Life(every=HOUR, catch_up=CatchUp.ALL)
    life.turn(4 * HOUR + 30 * MINUTE)
    ran = []
    while life.rows:
        assert life.facts.next_due_at is None or life.facts.next_due_at > life.now
        ran.append(life.only.due_at)
        life.run_one(took=10 * MINUTE)
        life.turn()
    assert (ran, life.skips) == (hours(1, 2, 3, 4, 5), [])


def test_catch_up_all_waits_for_what_was_live_before_the_absence():
    life = Life(every=HOUR, catch_up=CatchUp.ALL, overlap=Overlap.ALLOW, max_overlap=3)
    life.turn(HOUR)
    life.claim()
    life.turn(3 * HOUR + 30 * MINUTE)
    assert (life.only.due_at, life.skips, life.facts.next_due_at) == (NOW + HOUR, [], None)
    life.settle()
    life.turn()
    assert life.only.due_at == NOW + 2 * HOUR


def test_a_missed_run_once_runs_at_once():
    life = Life(at=NOW + HOUR)
    life.turn(DAY)
    assert (life.only.due_at, life.status) == (NOW + HOUR, Status.PENDING)


def test_a_missed_run_once_that_may_not_be_caught_up_has_come_to_its_end():
    life = Life(at=NOW + HOUR, catch_up=CatchUp.NONE)
    life.turn(DAY)
    assert life.skipped == [("missed", NOW + HOUR, NOW + HOUR, 1)]
    assert life.status is Status.COMPLETED


@pytest.mark.parametrize(("given", "period"), [({"every": SECOND}, SECOND), ({"cron": "* * * * *"}, MINUTE)])
@pytest.mark.parametrize("policies", [LATEST, NONE, LATEST | {"window": DAYTIME}])
def test_a_long_absence_is_one_step_and_takes_no_time(given, period, policies):
    life = Life(**given, **policies)
    began = perf_counter()
    assert life.turn(365 * DAY) == 1
    assert perf_counter() - began < 1
    assert len(life.rows) + life.facts.skipped == 365 * DAY / period


# -- window


def test_a_due_time_outside_the_window_is_a_skip():
    life = Life(every=HOUR, window=DAYTIME)
    for _ in range(24):
        life.turn(HOUR)
        if life.rows:
            life.run_one()
    assert [each.due_at.hour for each in life.executions] == [13, 14, 15, 16, 9, 10, 11, 12]
    assert life.skipped == [("window", *hours(5, 20), 16)]


@pytest.mark.parametrize(
    ("catch_up", "runs", "run_at", "skipped"),
    [
        # due every hour from 13:00; nobody was there until half past one at night
        (CatchUp.LATEST, 4, 21, [("missed", 1, 3, 3), ("window", 5, 13, 9)]),
        (CatchUp.NONE, None, None, [("missed", 1, 13, 13)]),
        (CatchUp.ALL, 1, 21, []),
    ],
)
def test_catch_up_takes_only_due_times_inside_the_window_and_starts_them_at_its_opening(
    catch_up, runs, run_at, skipped
):
    life = Life(every=HOUR, window=DAYTIME, catch_up=catch_up)
    life.turn(13 * HOUR + 30 * MINUTE)
    assert [live.due_at for live in life.rows] == ([] if runs is None else hours(runs))
    assert [live.run_at for live in life.rows] == ([] if runs is None else hours(run_at))
    assert life.skipped == [(reason, *hours(a, b), n) for reason, a, b, n in skipped]


def test_catch_up_all_passes_over_the_due_times_outside_the_window():
    life = Life(every=HOUR, window=DAYTIME, catch_up=CatchUp.ALL)
    life.turn(22 * HOUR + 30 * MINUTE)
    ran = []
    while life.rows:
        ran.append(life.only.due_at)
        life.run_one()
        life.turn()
    assert ran == hours(1, 2, 3, 4, 21, 22)
    assert life.skipped == [("window", *hours(5, 20), 16)]


def test_a_retry_moves_to_the_next_opening():
    life = Life(every=HOUR, window=Window(start=time(13), end=time(13, 30)))
    life.turn(HOUR + 29 * MINUTE + 30 * SECOND)
    life.fail()
    assert (life.only.attempt, life.only.run_at) == (1, NOW + HOUR + DAY)


def test_a_retry_inside_the_window_does_not_move():
    life = Life(every=HOUR, window=DAYTIME)
    life.turn(HOUR)
    life.fail()
    assert life.only.run_at == life.now + MINUTE


def test_a_due_time_inside_the_window_keeps_its_place_in_the_line_when_it_is_late():
    life = Life(every=HOUR, window=DAYTIME)
    life.turn(HOUR + 20 * SECOND)
    assert life.only.run_at == NOW + HOUR


def test_a_run_once_whose_time_is_outside_the_window_waits_for_the_opening():
    life = Life(at=NOW + 8 * HOUR, window=DAYTIME)
    life.turn(8 * HOUR)
    assert (life.only.due_at, life.only.run_at) == (NOW + 8 * HOUR, NOW + 21 * HOUR)
