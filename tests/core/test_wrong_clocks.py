"""Clocks gone wrong: what was fired under one, and what follows when it is set right."""

from datetime import UTC, datetime, time

import pytest

from ostinato.core.lifecycle import Dealt, fire, rewind
from ostinato.core.model import AskedBy, Skip, SkipReason, Status
from ostinato.core.policy import CatchUp, Overlap
from ostinato.core.times import Window
from tests.build import AHEAD, DAY, HOUR, MINUTE, NOW, SECOND, FixedChance, a_job, a_live
from tests.core.life import Life, hours
from tests.core.states import a_source, use_up

WRONG = datetime(2036, 1, 1, tzinfo=UTC)


def set_clock(life, at):
    life.now = at
    life.rewind()


def live_on(life, hours):
    """Turn after turn, each with its run if there is one."""
    for _ in range(hours):
        life.turn(HOUR)
        if life.rows:
            life.run_one()


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
    skip = Skip(FixedChance(1).id(NOW), life.job.id, SkipReason.MISSED, NOW + DAY, NOW + 2 * DAY, 25, NOW)
    change = rewind(life.job, [], NOW, FixedChance(), [skip])
    assert [each.count for each in change.rewritten] == [0]


def test_g4_what_was_executed_under_a_wrong_clock_is_not_fired_again():
    life = Life(every=HOUR)
    for _ in range(3):
        life.turn(HOUR)
        life.run_one()
    set_clock(life, NOW + 30 * MINUTE)
    assert life.facts.next_due_at == NOW + HOUR
    live_on(life, 4)
    assert [each.due_at for each in life.executions] == hours(1, 2, 3, 4)


def test_g4_what_has_no_record_is_fired_though_later_ones_are_dealt_with():
    life = Life(every=HOUR)
    life.turn(4 * HOUR)  # the clock jumped: 1, 2 and 3 were skipped, 4 was fired
    life.run_one()
    set_clock(life, NOW + 90 * MINUTE)
    live_on(life, 4)
    assert [each.due_at for each in life.executions] == hours(4, 2, 3, 5)


def test_what_was_missed_under_a_wrong_clock_is_caught_up_newest_first():
    life = Life(every=HOUR)
    life.turn(9 * HOUR)
    life.run_one()
    set_clock(life, NOW + 90 * MINUTE)
    life.turn(3 * HOUR)
    assert life.only.due_at == NOW + 4 * HOUR
    assert life.skipped == [("missed", *hours(1, 1), 1), ("missed", *hours(2, 3), 2)]


@pytest.mark.parametrize(("late", "reason"), [(2 * MINUTE, "missed"), (SECOND, "overlap")])
def test_a_due_time_looked_up_is_skipped_for_the_same_reasons_as_any_other(late, reason):
    job = a_job(last_due_at=NOW + 5 * HOUR, next_due_at=NOW + HOUR, catch_up=CatchUp.NONE)
    in_the_way = [a_live(job, due_at=NOW + 5 * HOUR, running=True)]
    change = fire(job, in_the_way, NOW + HOUR + late, FixedChance(), Dealt(frozenset([NOW + 5 * HOUR])))
    assert [(skip.reason, skip.first_due_at, skip.follows) for skip in change.skips] == [(reason, NOW + HOUR, None)]
    assert change.job.facts.last_due_at == NOW + 5 * HOUR


def test_a_due_time_looked_up_keeps_the_window():
    job = a_job(last_due_at=NOW + 9 * HOUR, next_due_at=NOW + HOUR, window=Window(start=time(20), end=time(21)))
    change = fire(job, [], NOW + HOUR, FixedChance(), Dealt())
    assert [skip.reason for skip in change.skips] == [SkipReason.WINDOW]


def test_a_job_made_by_a_wrong_clock_does_not_wait_for_that_time():
    life = Life(every=HOUR)
    life.job = a_job(every=HOUR, created_at=WRONG, updated_at=WRONG, anchor=WRONG)
    set_clock(life, NOW + MINUTE)
    assert life.now + HOUR <= life.facts.next_due_at < life.now + 2 * HOUR
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
    assert (life.only.asked, life.only.slot, life.startable) == (AskedBy.HAND, 0, [life.only])


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
    facts = rewind(job, [], NOW, FixedChance()).job.facts
    assert (facts.next_due_at, facts.last_due_at) == (NOW + 21 * HOUR, NOW - 3 * HOUR)


def test_a_skip_of_a_pause_that_a_wrong_clock_ended_is_cut_back_on_its_own_grid():
    life = Life(every=HOUR)
    life.pause()
    life.advance(WRONG - life.now + 7 * MINUTE)
    life.resume()
    set_clock(life, NOW + 150 * MINUTE)
    assert life.skipped == [("paused", *hours(1, 2), 2)]
    assert life.now + HOUR <= life.facts.next_due_at < life.now + 2 * HOUR


# -- back and forth


@pytest.mark.parametrize("catch_up", [CatchUp.LATEST, CatchUp.ALL, CatchUp.NONE])
def test_an_hour_back_and_forth_leaves_one_skip_for_each_gap_and_takes_one_turn(catch_up):
    """Every minute for two hours, of which some runs are missing; then an hour back, and forth again."""
    life = Life(every=MINUTE, catch_up=catch_up)
    for _ in range(120):
        life.turn(MINUTE)
        life.run_one()
    before = life.now
    life.executions = [each for each in life.executions if each.due_at.minute not in (7, 8, 30)]
    set_clock(life, before - HOUR)
    life.now = before  # forth: nothing is computed anew
    turns = 0
    while life.facts.next_due_at <= life.now and turns < 100:
        life.turn(0 * SECOND)
        while life.rows:
            life.run_one()
        turns += 1
    gaps = [(skip.first_due_at.minute, skip.last_due_at.minute) for skip in life.skips]
    assert turns <= 5
    assert gaps == [(7, 8), (30, 30)]
    life.turn(MINUTE)
    assert life.only.due_at == before + MINUTE


@pytest.mark.parametrize("catch_up", [CatchUp.LATEST, CatchUp.ALL])
def test_catch_up_runs_the_newest_while_later_due_times_are_dealt_with_already(catch_up):
    """The clock was ahead by ten hours for one run; then the worker was away for four, by the right clock."""
    life = Life(every=HOUR, catch_up=catch_up, catch_up_limit=1)
    life.turn(10 * HOUR)
    life.run_one()
    set_clock(life, NOW + 30 * MINUTE)
    life.turn(4 * HOUR)
    assert life.only.due_at == NOW + 4 * HOUR
    assert life.skipped == [("missed", *hours(1, 3), 3)]


@pytest.mark.parametrize("back", [SECOND, MINUTE, HOUR, 23 * HOUR])
def test_a_daily_job_is_not_early_though_the_clock_is_set_back_right_after_it_was_made(back):
    life = Life(every=DAY)
    life.advance(SECOND)
    set_clock(life, life.now - back)
    assert life.facts.next_due_at >= life.now + DAY - SECOND
    assert life.facts.next_due_at < life.now + 2 * DAY
