"""Edits: what they reach, and how a new schedule follows upon the old one."""

import json
from dataclasses import replace

import pytest

from ostinato.core.model import AskedBy, SkipReason, Status, WaitsFor
from ostinato.core.policy import CatchUp, FirstRun, Overlap, WhenExhausted
from ostinato.core.schedule import Cron, Every, Manual, Once
from tests.build import AHEAD, DAY, HOUR, MINUTE, NOW, SECOND
from tests.core.life import Life, hours
from tests.core.states import a_life


def test_an_edit_raises_the_version_and_leaves_before_and_after():
    life = a_life("scheduled")
    life.edit(queue="slow", max_retries=7)
    data = json.loads(life.events[-1].data)
    assert (life.facts.version, data["version"]) == (2, 2)
    assert (data["before"]["queue"], data["after"]["queue"]) == ("default", "slow")
    assert (data["before"]["policies"]["max_retries"], data["after"]["policies"]["max_retries"]) == ("3", "7")
    assert "task" not in data["before"]


def test_an_edit_that_is_not_about_time_does_not_move_the_schedule():
    life = a_life("scheduled")
    life.advance(20 * MINUTE)
    before = (life.facts.next_due_at, life.facts.anchor)
    life.edit(queue="slow", max_retries=7, overlap=Overlap.ALLOW, window=None, total_repeats=9)
    assert (life.facts.next_due_at, life.facts.anchor) == before


def test_an_edit_never_touches_a_run_in_progress():
    life = a_life("running")
    before = life.only
    life.edit(task="other", queue="slow", priority=1, schedule=Every(DAY))
    assert life.only == before


@pytest.mark.parametrize("state", ["queued", "backoff"])
def test_what_waits_follows_its_job(state):
    life = a_life(state)
    before = life.only
    life.edit(task="other", queue="slow", priority=1)
    assert (life.only.task, life.only.queue, life.only.priority) == ("other", "slow", 1)
    assert (life.only.number, life.only.attempt, life.only.run_at) == (
        before.number,
        before.attempt,
        before.run_at,
    )


def test_what_waited_for_somebody_who_knows_its_task_asks_anew_when_the_task_changes():
    life = a_life("queued")
    life.lives[life.only.id] = replace(life.only, waits_for=WaitsFor.TASK)
    life.edit(priority=1)
    assert life.only.waits_for is WaitsFor.TASK
    life.edit(task="other")
    assert life.only.waits_for is None


@pytest.mark.parametrize(
    ("schedule", "policies", "following"),
    [
        (Every(2 * HOUR), {}, 2 * HOUR),
        (Every(2 * HOUR), {"first_run": FirstRun.NOW}, 2 * HOUR),
        (Every(HOUR), {"start_at": NOW + DAY}, NOW + DAY),
        (Every(HOUR), {"start_at": NOW - DAY}, HOUR),
        (Every(HOUR), {"fixed_delay": True}, HOUR),
        (Cron("0 * * * *"), {}, NOW + 2 * HOUR),
        (Once(NOW + DAY), {}, NOW + DAY),
        (Manual(), {}, None),
    ],
)
def test_a_new_schedule_counts_from_the_edit_and_never_starts_at_once(schedule, policies, following):
    life = a_life("scheduled")
    life.advance(20 * MINUTE)
    life.edit(schedule=schedule, **policies)
    expected = life.now + following if isinstance(following, type(HOUR)) else following
    assert (life.facts.next_due_at, life.rows) == (expected, [])


def test_the_occurrence_in_flight_keeps_its_number_and_its_retries():
    life = a_life("backoff")
    life.edit(schedule=Every(DAY))
    life.retry_comes()
    life.fail()
    assert (life.only.number, life.only.attempt) == (1, 2)


@pytest.mark.parametrize("at", [NOW, NOW + HOUR])
def test_a_time_that_has_come_already_starts_at_the_edit(at):
    life = a_life("scheduled")
    life.edit(schedule=Once(at))
    assert (life.only.due_at, life.facts.next_due_at) == (at, None)


def test_a_new_schedule_that_has_come_to_its_end_completes_the_job():
    life = a_life("scheduled", end_at=NOW + 3 * HOUR)
    life.edit(schedule=Every(DAY))
    assert life.status is Status.COMPLETED


def test_a_new_end_does_not_shorten_the_wait_for_a_reset():
    life = Life(every=HOUR, max_retries=1, retry_reset_period=DAY, when_exhausted=WhenExhausted.WAIT_RESET)
    life.turn(HOUR)
    life.fail()
    life.edit(end_at=NOW + 9 * DAY)
    assert life.facts.next_due_at == NOW + HOUR + DAY


def test_a_time_that_has_passed_already_waits_for_its_turn_behind_what_runs():
    life = a_life("running")
    life.edit(schedule=Once(NOW))
    assert (life.waiting.due_at, life.waiting.number) == (NOW, 2)


@pytest.mark.parametrize(("state", "reason"), [("scheduled", SkipReason.MISSED), ("paused", SkipReason.PAUSED)])
def test_g4_what_the_old_schedule_had_due_before_the_edit_has_its_record(state, reason):
    life = a_life(state)
    life.advance(2 * HOUR + 20 * MINUTE)
    life.edit(schedule=Every(DAY))
    assert life.skipped == [(reason, *hours(2, 3), 2)]


def test_g4_what_came_due_while_a_budget_was_used_up_has_its_record_after_an_edit():
    life = Life(every=HOUR, max_retries=1, retry_reset_period=DAY, when_exhausted=WhenExhausted.WAIT_RESET)
    life.turn(HOUR)
    life.fail()
    life.advance(2 * HOUR)
    life.edit(schedule=Every(DAY))
    assert (life.skipped, life.facts.reset_at) == ([("budget", *hours(2, 3), 2)], None)
    assert life.facts.next_due_at == life.now + DAY


def test_g4_a_backlog_that_waits_for_its_turn_has_its_record_after_an_edit():
    life = a_life("running", catch_up=CatchUp.ALL)
    life.turn(3 * HOUR)
    life.edit(schedule=Every(DAY))
    assert life.skipped == [("missed", *hours(2, 4), 3)]


def test_an_edit_takes_back_what_the_old_schedule_fired_ahead():
    life = a_life("scheduled")
    life.turn(HOUR - AHEAD, ahead=AHEAD)
    life.edit(schedule=Every(DAY))
    assert (life.rows, life.skips) == ([], [])


def test_who_waits_behind_what_was_fired_ahead_comes_in_when_an_edit_takes_it_back():
    life = a_life("scheduled")
    life.turn(HOUR - AHEAD, ahead=AHEAD)
    life.run()
    assert life.waiting is not None
    life.edit(schedule=Every(DAY))
    assert (life.only.asked, life.startable) == (AskedBy.HAND, [life.only])


def test_an_end_moved_away_does_not_move_the_grid():
    life = a_life("running", end_at=NOW + HOUR)
    life.advance(20 * MINUTE)
    life.edit(end_at=NOW + DAY)
    assert (life.facts.next_due_at, life.facts.anchor) == (NOW + 2 * HOUR, NOW)


def test_what_lies_between_an_old_end_and_the_edit_was_never_due():
    life = a_life("running", end_at=NOW + HOUR)
    life.advance(3 * HOUR)
    life.edit(end_at=NOW + DAY)
    assert (life.facts.next_due_at, life.skips) == (NOW + 5 * HOUR, [])


def test_a_due_time_that_nobody_has_seen_yet_survives_a_new_end():
    life = a_life("scheduled")
    life.advance(HOUR + SECOND)
    life.edit(end_at=NOW + DAY)
    assert life.facts.next_due_at == NOW + 2 * HOUR


def test_an_end_brought_forward_completes_the_job():
    life = a_life("scheduled")
    life.edit(end_at=NOW + HOUR)
    assert life.status is Status.COMPLETED


def test_an_ended_job_may_be_edited_and_stays_ended():
    life = a_life("completed")
    life.edit(schedule=Every(DAY), end_at=None)
    assert (life.status, life.facts.next_due_at) == (Status.COMPLETED, None)
    life.restart()
    assert life.facts.next_due_at == life.now + DAY


def test_an_ended_job_that_is_run_once_more_is_not_brought_back_by_an_edit():
    life = a_life("failed")
    life.run()
    life.edit(schedule=Every(DAY))
    life.run_one()
    assert (life.status, life.facts.next_due_at) == (Status.FAILED, None)


def test_a_paused_job_may_be_edited_and_stays_paused():
    life = a_life("paused")
    life.edit(schedule=Every(DAY))
    assert (life.status, life.facts.next_due_at) == (Status.PAUSED, None)
    life.advance(HOUR)
    life.resume()
    assert life.facts.next_due_at == life.now + DAY


def test_a_paused_run_once_moved_into_the_past_starts_at_the_resume():
    life = Life(at=NOW + DAY)
    life.pause()
    life.advance(HOUR)
    life.edit(schedule=Once(NOW))
    assert life.rows == []
    life.resume()
    assert life.only.due_at == NOW
