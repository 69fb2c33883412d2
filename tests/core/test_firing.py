"""Turning what is due into a queued execution, or a skip: catch-up, window, overlap, repeats, and clocks gone wrong."""

from datetime import UTC, datetime, time
from time import perf_counter

import pytest

from ostinato.core.lifecycle import Dealt, fire, rewind
from ostinato.core.model import WAITING_PLACE, Asked, Result, Skip, SkipReason, Status, WaitsFor
from ostinato.core.policy import CatchUp, Overlap, WhenExhausted
from ostinato.core.retry import Backoff
from ostinato.core.window import Window
from tests.build import DAY, HOUR, MINUTE, NOW, SECOND, Chance, a_job, a_live
from tests.core.life import AHEAD, FAILURE, SUCCESS, Life, hours

DAYTIME = Window(start=time(9), end=time(17))


# -- a due time comes


def test_a_due_time_becomes_a_queued_execution_and_the_next_time():
    life = Life(every=HOUR)
    life.turn(HOUR)
    assert (life.only.due_at, life.only.run_at, life.only.waits_for) == (NOW + HOUR, NOW + HOUR, None)
    assert (life.facts.next_due_at, life.facts.last_due_at) == (NOW + 2 * HOUR, NOW + HOUR)


def test_g5_a_grid_does_not_drift_however_late_it_is_fired():
    life = Life(every=HOUR)
    for n in range(1, 6):
        life.turn(NOW + n * HOUR + 7 * SECOND - life.now)
        assert life.only.due_at == NOW + n * HOUR
        life.run_one(took=20 * MINUTE)


def test_g5_nothing_is_fired_before_its_time():
    life = Life(every=HOUR)
    life.advance(HOUR - 2 * SECOND)
    life.fire()
    assert (life.rows, life.facts.next_due_at) == ([], NOW + HOUR)


def test_what_is_fired_ahead_starts_at_its_due_time():
    life = Life(every=HOUR)
    life.turn(HOUR - AHEAD, ahead=AHEAD)
    assert (life.only.due_at, life.only.run_at) == (NOW + HOUR, NOW + HOUR)
    assert (life.startable, life.facts.next_due_at) == ([], NOW + 2 * HOUR)
    life.advance(AHEAD)
    assert life.startable == [life.only]


def test_nothing_is_fired_ahead_while_an_occurrence_is_live():
    life = Life(every=HOUR)
    life.turn(HOUR)
    before = life.facts
    life.advance(HOUR - AHEAD)
    life.fire()
    assert (life.facts, life.skips) == (before, [])


def test_a_due_time_outside_the_window_is_not_dealt_with_ahead():
    life = Life(every=HOUR, window=Window(start=time(20), end=time(21)))
    life.turn(HOUR - AHEAD, ahead=AHEAD)
    assert (life.skips, life.facts.next_due_at) == ([], NOW + HOUR)


@pytest.mark.parametrize("stopped", ["paused_at", "cancelled_at", "deleted_at"])
def test_g8_a_job_that_is_stopped_fires_nothing(stopped):
    job = a_job(**{stopped: NOW, "next_due_at": NOW})
    change = fire(job, [], NOW + MINUTE, Chance())
    assert (change.add, change.skips, change.job.facts.next_due_at) == ((), (), None)


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


# -- bounds


def test_end_at_is_the_last_due_time_inclusive_and_then_the_job_has_completed():
    life = Life(every=HOUR, end_at=NOW + 2 * HOUR)
    for due in hours(1, 2):
        life.turn(HOUR)
        assert life.only.due_at == due
        life.run_one()
    assert (life.status, life.facts.next_due_at) == (Status.COMPLETED, None)


def test_an_absence_beyond_the_end_catches_up_within_the_bounds():
    life = Life(every=HOUR, end_at=NOW + 3 * HOUR)
    life.turn(30 * DAY)
    assert (life.only.due_at, life.skipped) == (NOW + 3 * HOUR, [("missed", *hours(1, 2), 2)])
    life.run_one()
    assert life.status is Status.COMPLETED


def test_a_schedule_whose_last_due_times_were_all_missed_completes():
    life = Life(every=HOUR, end_at=NOW + 3 * HOUR, catch_up=CatchUp.NONE)
    life.turn(30 * DAY)
    assert (life.status, life.facts.skipped) == (Status.COMPLETED, 3)


# -- total_repeats


def test_total_repeats_counts_successes_of_the_schedule_and_not_runs_by_hand():
    life = Life(every=HOUR, total_repeats=2, max_retries=0)
    life.turn(HOUR)
    life.fail()
    life.run()
    life.run_one()
    for _ in range(2):
        assert life.status is Status.SCHEDULED
        life.turn(HOUR)
        life.run_one()
    assert (life.status, life.facts.repeats_done, life.facts.completed) == (Status.COMPLETED, 2, 3)
    assert life.turn(30 * DAY) == 0


def test_nothing_is_fired_beside_others_that_could_exceed_total_repeats():
    life = Life(every=HOUR, total_repeats=3, overlap=Overlap.ALLOW, max_overlap=5)
    for _ in range(4):
        life.turn(HOUR)
    assert [live.due_at for live in life.rows] == hours(1, 2, 3)
    assert life.skipped == [("overlap", *hours(4, 4), 1)]
    for _ in range(3):
        life.run_one()
    assert (life.status, life.facts.repeats_done) == (Status.COMPLETED, 3)


def test_a_failure_makes_room_for_another_repeat():
    life = Life(every=HOUR, total_repeats=2, overlap=Overlap.ALLOW, max_overlap=5, max_retries=0)
    life.turn(HOUR)
    life.turn(HOUR)
    life.fail()
    life.turn(HOUR)
    assert [live.due_at for live in life.rows] == hours(2, 3)


@pytest.mark.parametrize("overlap", [Overlap.QUEUE_ONE, Overlap.CANCEL_RUNNING])
def test_the_last_repeat_is_not_disturbed_by_a_due_time_that_could_exceed_it(overlap):
    life = Life(every=HOUR, total_repeats=1, overlap=overlap)
    life.turn(HOUR)
    life.claim()
    life.turn(HOUR)
    assert (life.only.cancel_asked_at, life.skipped) == (None, [("overlap", *hours(2, 2), 1)])
    life.settle()
    assert life.status is Status.COMPLETED


def test_total_repeats_lowered_below_what_is_done_ends_at_the_next_success():
    life = Life(every=HOUR)
    for _ in range(3):
        life.turn(HOUR)
        life.run_one()
    life.edit(total_repeats=2)
    assert life.status is Status.SCHEDULED
    life.turn(HOUR)
    life.run_one()
    assert (life.status, life.facts.repeats_done) == (Status.COMPLETED, 4)


# -- fixed_delay


def test_a_fixed_delay_counts_from_the_finish():
    life = Life(every=HOUR, fixed_delay=True)
    life.turn(HOUR)
    assert life.facts.next_due_at is None
    life.run_one(took=25 * MINUTE)
    assert life.facts.next_due_at == NOW + 2 * HOUR + 25 * MINUTE


def test_a_fixed_delay_counts_from_the_finish_of_the_last_attempt():
    life = Life(every=HOUR, fixed_delay=True, max_retries=1)
    life.turn(HOUR)
    life.fail(took=MINUTE)
    assert life.facts.next_due_at is None
    life.retry_comes()
    life.fail(took=MINUTE)
    assert life.facts.next_due_at == NOW + 2 * HOUR + 3 * MINUTE


def test_a_missed_due_time_of_a_fixed_delay_is_one_however_long_the_absence():
    life = Life(every=SECOND, fixed_delay=True, catch_up=CatchUp.NONE)
    assert life.turn(365 * DAY) == 1
    assert life.skipped == [("missed", NOW + SECOND, NOW + SECOND, 1)]
    assert life.facts.next_due_at == life.now + SECOND


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


# -- overlap


def live_ones(life):
    return [((live.due_at - NOW) // HOUR, live.slot, live.waits_for) for live in life.rows]


TURN = WaitsFor.TURN


@pytest.mark.parametrize(
    ("overlap", "state", "expected", "skipped"),
    [
        # what the first occurrence is doing when the second and the third come due
        (Overlap.SKIP, "queued", [(1, 0, None)], [2, 3]),
        (Overlap.SKIP, "running", [(1, 0, None)], [2, 3]),
        (Overlap.SKIP, "backoff", [(1, 0, WaitsFor.TIME)], [2, 3]),
        (Overlap.QUEUE_ONE, "queued", [(1, 0, None), (2, WAITING_PLACE, TURN)], [3]),
        (Overlap.QUEUE_ONE, "running", [(1, 0, None), (2, WAITING_PLACE, TURN)], [3]),
        (Overlap.QUEUE_ONE, "backoff", [(1, 0, WaitsFor.TIME), (2, WAITING_PLACE, TURN)], [3]),
        (Overlap.CANCEL_RUNNING, "queued", [(3, 0, None)], [1, 2]),
        (Overlap.CANCEL_RUNNING, "running", [(1, 0, None), (2, WAITING_PLACE, TURN)], [3]),
        (Overlap.CANCEL_RUNNING, "backoff", [(3, 0, None)], [2]),
        (Overlap.ALLOW, "queued", [(1, 0, None), (2, 1, None)], [3]),
        (Overlap.ALLOW, "running", [(1, 0, None), (2, 1, None)], [3]),
        (Overlap.ALLOW, "backoff", [(1, 0, WaitsFor.TIME), (2, 1, None)], [3]),
    ],
)
def test_g1_the_overlap_policy_decides_about_a_due_time_while_an_occurrence_is_live(
    overlap, state, expected, skipped
):
    life = Life(every=HOUR, overlap=overlap, max_overlap=2, backoff=Backoff(base=DAY, cap=DAY))
    life.turn(HOUR)
    if state == "running":
        life.claim()
    if state == "backoff":
        life.fail()
    life.turn(HOUR)
    life.turn(HOUR)
    assert live_ones(life) == expected
    assert sorted(skip.first_due_at for skip in life.skips) == hours(*skipped)
    assert {skip.reason for skip in life.skips} == {SkipReason.OVERLAP}


def test_a_skip_for_overlap_names_what_was_in_the_way():
    life = Life(every=HOUR)
    life.turn(HOUR)
    life.turn(HOUR)
    assert life.skips[0].in_the_way == life.only.id


def test_skips_that_follow_each_other_are_one_row():
    life = Life(every=HOUR)
    life.turn(HOUR)
    for _ in range(5):
        life.turn(HOUR)
    assert life.skipped == [("overlap", *hours(2, 6), 5)]
    life.run_one()
    life.turn(HOUR)
    life.turn(HOUR)
    assert life.skipped[1:] == [("overlap", *hours(8, 8), 1)]


def test_who_waits_comes_in_when_the_slot_is_free():
    life = Life(every=HOUR, overlap=Overlap.QUEUE_ONE)
    life.turn(HOUR)
    first = life.claim()
    life.turn(HOUR)
    life.settle(SUCCESS, first)
    assert (life.only.number, life.only.slot, life.only.waits_for) == (2, 0, None)


def test_cancel_running_asks_the_running_one_to_stop_and_never_retries_it():
    life = Life(every=HOUR, overlap=Overlap.CANCEL_RUNNING)
    life.turn(HOUR)
    first = life.claim()
    life.turn(HOUR)
    assert life.lives[first.id].cancel_asked_at == life.now
    life.settle(FAILURE, first)
    assert (life.only.number, life.only.attempt, life.only.slot) == (2, 0, 0)


def test_an_occurrence_by_hand_is_in_the_way_too():
    life = Life(every=HOUR)
    life.run()
    life.turn(HOUR)
    assert (life.only.asked, life.skipped) == (Asked.HAND, [("overlap", *hours(1, 1), 1)])


def test_g1_fewer_slots_after_an_edit_start_nothing_more_until_there_is_room():
    life = Life(every=HOUR, overlap=Overlap.ALLOW, max_overlap=3)
    for _ in range(3):
        life.turn(HOUR)
    first, *_ = [life.claim() for _ in range(3)]
    life.edit(overlap=Overlap.SKIP)
    life.settle(SUCCESS, first)
    life.run()
    assert life.waiting is not None
    life.settle(SUCCESS, life.running[0])
    assert life.waiting is not None
    life.settle(SUCCESS, life.running[0])
    assert (life.waiting, life.only.asked, life.only.slot) == (None, Asked.HAND, 0)


# -- waiting for the reset of the retry budget


def a_source(**given):
    """Five failures in a period of six hours use its budget up."""
    waits = {"when_exhausted": WhenExhausted.WAIT_RESET, "retry_reset_period": 6 * HOUR, "max_retries": 5}
    return Life(**{"every": HOUR} | waits | given)


def use_up(life, failures=5):
    """Fail as often as there is budget for; the first failure starts the period."""
    for _ in range(failures):
        life.retry_comes()
        life.fail()


def test_a_used_up_budget_waits_until_the_period_is_over():
    life = a_source(every=12 * HOUR)
    life.turn(12 * HOUR)
    use_up(life)
    assert [result for *_, result in life.results] == [Result.FAILED] * 5
    assert (life.rows, life.status) == ([], Status.SCHEDULED)
    assert life.facts.next_due_at == NOW + 18 * HOUR
    assert life.turn(NOW + 18 * HOUR - SECOND - life.now) == 0


def test_after_the_reset_the_failed_occurrence_runs_again_when_no_later_one_was_due():
    life = a_source(every=12 * HOUR)
    life.turn(12 * HOUR)
    use_up(life)
    life.turn(NOW + 18 * HOUR - life.now)
    assert (life.only.number, life.only.attempt, life.only.due_at) == (1, 5, NOW + 12 * HOUR)
    assert (life.only.failures, life.facts.period_failures, life.skips) == (0, 0, [])
    assert life.facts.next_due_at == NOW + 24 * HOUR
    life.fail()
    assert life.only.run_at == life.now + MINUTE  # the backoff begins anew


def test_after_the_reset_the_newest_due_time_runs_and_those_between_are_one_skip():
    life = a_source()
    life.turn(HOUR)
    use_up(life)
    assert life.facts.next_due_at == NOW + 7 * HOUR
    life.turn(NOW + 7 * HOUR - life.now)
    assert (life.only.number, life.only.attempt, life.only.due_at) == (2, 0, NOW + 7 * HOUR)
    assert life.skipped == [("budget", *hours(2, 6), 5)]
    assert life.facts.next_due_at == NOW + 8 * HOUR


def test_a_reset_is_not_fired_ahead():
    life = a_source()
    life.turn(HOUR)
    use_up(life)
    life.turn(NOW + 7 * HOUR - AHEAD - life.now, ahead=AHEAD)
    assert (life.rows, life.facts.reset_at) == ([], NOW + 7 * HOUR)


def test_after_the_reset_the_window_is_kept():
    life = a_source(window=Window(start=time(13), end=time(14, 30)))
    life.turn(HOUR)
    use_up(life)
    life.turn(NOW + 7 * HOUR - life.now)
    assert (life.only.due_at, life.only.run_at) == (NOW + 2 * HOUR, NOW + HOUR + DAY)
    assert life.skipped == [("window", *hours(3, 7), 5)]


def test_a_run_by_hand_holds_the_reset_up_until_it_has_ended():
    life = a_source()
    life.turn(HOUR)
    use_up(life)
    life.run()
    life.claim()
    life.turn(NOW + 8 * HOUR - life.now)
    assert (life.only.asked, life.facts.next_due_at) == (Asked.HAND, None)
    life.settle()
    life.turn()
    assert (life.only.asked, life.only.due_at) == (Asked.SCHEDULE, NOW + 8 * HOUR)


def test_an_end_that_comes_while_the_budget_is_used_up_is_kept():
    life = a_source(end_at=NOW + 3 * HOUR)
    life.turn(HOUR)
    use_up(life)
    life.turn(DAY)
    assert (life.only.due_at, life.facts.next_due_at) == (NOW + 3 * HOUR, None)
    life.run_one()
    assert life.status is Status.COMPLETED


# -- clocks gone wrong

WRONG = datetime(2036, 1, 1, tzinfo=UTC)


def set_clock(life, at):
    life.now = at
    life.rewind()


def test_g5_a_clock_set_back_computes_the_next_time_anew_on_the_same_grid():
    life = Life(every=HOUR)
    life.turn(WRONG - life.now)
    life.run_one()
    set_clock(life, NOW + 90 * MINUTE)
    assert (life.facts.next_due_at, life.told) == (NOW + 2 * HOUR, ["job.rewound"])
    life.turn(30 * MINUTE)
    assert life.only.due_at == NOW + 2 * HOUR


def test_a_skip_that_a_wrong_clock_made_is_cut_back_to_now():
    life = Life(every=HOUR)
    life.turn(WRONG - life.now)
    life.run_one()
    set_clock(life, NOW + 150 * MINUTE)
    assert life.skipped == [("missed", *hours(1, 2), 2)]
    assert life.facts.skipped == 2


def test_a_skip_that_lies_in_the_future_is_removed():
    life = Life(every=HOUR)
    skip = Skip(Chance(1).id(NOW), life.job.id, SkipReason.MISSED, NOW + DAY, NOW + 2 * DAY, 25, NOW)
    change = rewind(life.job, [], NOW, Chance(), [skip])
    assert [each.count for each in change.rewritten] == [0]


def test_g4_what_was_executed_under_a_wrong_clock_is_not_fired_again():
    life = Life(every=HOUR)
    for _ in range(3):
        life.turn(HOUR)
        life.run_one()
    set_clock(life, NOW + 30 * MINUTE)
    assert life.facts.next_due_at == NOW + HOUR
    for _ in range(4):
        life.turn(HOUR)
        if life.rows:
            life.run_one()
    assert [each.due_at for each in life.executions] == hours(1, 2, 3, 4)


def test_g4_what_has_no_record_is_fired_though_later_ones_are_dealt_with():
    life = Life(every=HOUR)
    life.turn(4 * HOUR)  # the clock jumped: 1, 2 and 3 were skipped, 4 was fired
    life.run_one()
    set_clock(life, NOW + 90 * MINUTE)
    for _ in range(4):
        life.turn(HOUR)
        if life.rows:
            life.run_one()
    assert [each.due_at for each in life.executions] == hours(4, 2, 3, 5)


def test_what_was_missed_under_a_wrong_clock_is_caught_up_newest_first():
    life = Life(every=HOUR)
    life.turn(9 * HOUR)
    life.run_one()
    set_clock(life, NOW + 90 * MINUTE)
    life.turn(3 * HOUR)
    assert life.only.due_at == NOW + 4 * HOUR
    assert sorted(skip.first_due_at for skip in life.skips) == hours(1, 2, 3)


@pytest.mark.parametrize(("late", "reason"), [(2 * MINUTE, "missed"), (SECOND, "overlap")])
def test_a_due_time_looked_up_is_skipped_for_the_same_reasons_as_any_other(late, reason):
    job = a_job(last_due_at=NOW + 5 * HOUR, next_due_at=NOW + HOUR, catch_up=CatchUp.NONE)
    in_the_way = [a_live(job, due_at=NOW + 5 * HOUR, running=True)]
    change = fire(job, in_the_way, NOW + HOUR + late, Chance(), Dealt(frozenset([NOW + 5 * HOUR])))
    assert [(skip.reason, skip.first_due_at, skip.follows) for skip in change.skips] == [
        (reason, NOW + HOUR, None)
    ]
    assert change.job.facts.last_due_at == NOW + 5 * HOUR


def test_a_due_time_looked_up_keeps_the_window():
    job = a_job(
        last_due_at=NOW + 9 * HOUR, next_due_at=NOW + HOUR, window=Window(start=time(20), end=time(21))
    )
    change = fire(job, [], NOW + HOUR, Chance(), Dealt())
    assert [skip.reason for skip in change.skips] == [SkipReason.WINDOW]


def test_a_job_made_by_a_wrong_clock_does_not_wait_for_that_time():
    life = Life(every=HOUR)
    life.job = a_job(every=HOUR, created_at=WRONG, updated_at=WRONG, anchor=WRONG)
    set_clock(life, NOW + MINUTE)
    assert NOW + MINUTE < life.facts.next_due_at <= NOW + MINUTE + HOUR
    assert (WRONG - life.facts.anchor) % HOUR == 0 * HOUR


def test_what_a_wrong_clock_has_queued_does_not_block_the_job():
    life = Life(every=HOUR)
    life.turn(WRONG - life.now)
    set_clock(life, NOW + 90 * MINUTE)
    assert life.rows == []
    life.turn(30 * MINUTE)
    assert life.only.due_at == NOW + 2 * HOUR


def test_a_backoff_that_a_wrong_clock_began_begins_now():
    life = Life(at=NOW, max_retries=3)
    life.now = WRONG
    life.fail()
    set_clock(life, NOW + MINUTE)
    assert (life.only.run_at, life.only.queued_at) == (NOW + 2 * MINUTE, NOW + MINUTE)


def test_a_reset_that_a_wrong_clock_named_comes_within_a_period_from_now():
    life = a_source()
    life.turn(WRONG - life.now)
    use_up(life)
    set_clock(life, NOW + MINUTE)
    assert life.facts.next_due_at == NOW + MINUTE + 6 * HOUR
    assert life.facts.period_start == NOW + MINUTE


@pytest.mark.parametrize("state", ["queued", "backoff", "ahead"])
def test_an_unchanged_clock_changes_nothing(state):
    life = Life(every=HOUR)
    life.turn(HOUR - AHEAD if state == "ahead" else HOUR, ahead=AHEAD)
    if state == "backoff":
        life.fail()
    life.advance(AHEAD / 2)
    before, rows = life.facts, life.rows
    life.rewind()
    assert (life.facts.next_due_at, life.rows, life.told) == (before.next_due_at, rows, [])


def test_who_waits_behind_what_a_wrong_clock_has_queued_comes_in():
    life = Life(every=HOUR, overlap=Overlap.QUEUE_ONE)
    life.turn(WRONG - life.now)
    life.claim()
    life.run()
    life.release(life.running[0])
    set_clock(life, NOW + MINUTE)
    assert (life.only.asked, life.only.slot, life.startable) == (Asked.HAND, 0, [life.only])


def test_a_run_once_fired_by_a_wrong_clock_comes_at_its_time():
    life = Life(at=NOW + HOUR)
    life.turn(2 * HOUR)
    set_clock(life, NOW + MINUTE)
    assert (life.rows, life.facts.next_due_at) == ([], NOW + HOUR)
    life.turn(HOUR)
    life.run_one()
    assert life.status is Status.COMPLETED


def test_a_fixed_delay_counts_from_now_after_a_clock_set_back():
    life = Life(every=HOUR, fixed_delay=True)
    life.turn(WRONG - life.now)
    life.run_one()
    set_clock(life, NOW + 5 * MINUTE)
    assert life.now < life.facts.next_due_at <= life.now + HOUR


def test_changed_zone_data_moves_the_next_time_only():
    job = a_job(cron="0 9 * * *", next_due_at=NOW + 20 * HOUR, last_due_at=NOW - 3 * HOUR)
    facts = rewind(job, [], NOW, Chance()).job.facts
    assert (facts.next_due_at, facts.last_due_at) == (NOW + 21 * HOUR, NOW - 3 * HOUR)


def test_a_skip_of_a_pause_that_a_wrong_clock_ended_is_cut_back_on_its_own_grid():
    life = Life(every=HOUR)
    life.pause()
    life.advance(WRONG - life.now + 7 * MINUTE)
    life.resume()
    set_clock(life, NOW + 150 * MINUTE)
    assert life.skipped == [("paused", *hours(1, 2), 2)]
    assert life.now < life.facts.next_due_at <= life.now + HOUR
