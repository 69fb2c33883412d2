"""What people may ask of a job, in every state; and what is refused and changes nothing."""

import json
from dataclasses import replace
from datetime import time

import pytest

from ostinato.core.errors import Conflict, NotFound
from ostinato.core.model import Asked, Result, SkipReason, Status, WaitsFor
from ostinato.core.outcome import Cancelled
from ostinato.core.policy import CatchUp, FirstRun, Overlap, WhenExhausted
from ostinato.core.schedule import Cron, Every, Manual, Once
from ostinato.core.window import Window
from tests.build import DAY, HOUR, MINUTE, NOW, SECOND
from tests.core.life import AHEAD, FAILURE, SUCCESS, Life

FAIL = {"max_retries": 0, "when_exhausted": WhenExhausted.FAIL}
OTHER = '{"x": 1}'


def hours(*numbers):
    return [NOW + n * HOUR for n in numbers]


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


# -- what a state allows

STATES = "scheduled queued backoff running paused completed failed cancelled deleted".split()
ALLOWED = {
    "pause": "scheduled queued backoff running",
    "resume": "paused",
    "cancel": "scheduled queued backoff running paused",
    "delete": "scheduled queued backoff running paused completed failed cancelled",
    "edit": "scheduled queued backoff running paused completed failed",
    "retry": "failed",
    "run": "scheduled queued backoff running paused completed failed",
    "restart": "completed failed",
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("command", ALLOWED)
def test_a_state_allows_a_command_or_refuses_it_and_changes_nothing(command, state):
    life = a_life(state)
    before = (life.job, life.rows, len(life.events))
    if state in ALLOWED[command].split():
        getattr(life, command)()
        return
    with pytest.raises((Conflict, NotFound), match=r"^This job .*\.$"):
        getattr(life, command)()
    assert (life.job, life.rows, len(life.events)) == before


def test_a_job_that_is_paused_and_running_cannot_be_paused_again_but_resumed():
    life = a_life("paused running")
    with pytest.raises(Conflict, match="This job is paused"):
        life.pause()
    life.resume()
    assert life.facts.paused_at is None


@pytest.mark.parametrize(
    ("command", "state", "kind"),
    [
        ("pause", "scheduled", "job.paused"),
        ("resume", "paused", "job.resumed"),
        ("cancel", "scheduled", "job.cancelled"),
        ("delete", "scheduled", "job.deleted"),
        ("edit", "scheduled", "job.edited"),
        ("retry", "failed", "job.retried"),
        ("run", "scheduled", "job.run"),
        ("restart", "completed", "job.restarted"),
    ],
)
def test_a_command_leaves_an_event_that_says_who_asked(command, state, kind):
    life = a_life(state)
    getattr(life, command)()
    assert (life.events[-1].kind, life.events[-1].by, life.events[-1].at) == (kind, "me", life.now)
    assert life.facts.updated_at == life.now


@pytest.mark.parametrize(
    ("state", "command", "data"),
    [
        ("failed", "retry", {"number": 1, "attempt": 1}),
        ("scheduled", "run", {"other_args": False}),
        ("scheduled", "delete", {"key": "nightly", "task": "work"}),
        ("paused", "resume", {"anchor": str(NOW + 2 * HOUR), "next_due_at": str(NOW + 3 * HOUR)}),
        ("failed", "restart", {"anchor": str(NOW + 2 * HOUR), "next_due_at": str(NOW + 3 * HOUR)}),
    ],
)
def test_an_event_tells_what_no_other_row_tells(state, command, data):
    life = a_life(state, key="nightly")
    life.advance(HOUR)
    getattr(life, command)()
    assert json.loads(life.events[-1].data) == data


@pytest.mark.parametrize(
    ("state", "command", "sentence"),
    [
        (
            "failed",
            "pause",
            "This job is failed; only a job that is pending, scheduled, queued or running can be paused.",
        ),
        ("queued", "retry", "This job is queued; only a job that is failed can be retried."),
        ("paused", "restart", "This job is paused; only a job that is completed or failed can be restarted."),
        ("cancelled", "run", "This job is cancelled; a cancelled job cannot be run."),
        ("deleted", "run", "This job has been deleted."),
    ],
)
def test_a_refusal_is_a_sentence_that_says_what_is_possible(state, command, sentence):
    with pytest.raises((Conflict, NotFound)) as refused:
        getattr(a_life(state), command)()
    assert str(refused.value) == sentence


# -- pause


def test_pause_takes_the_next_time_away():
    life = a_life("scheduled")
    life.pause()
    assert (life.status, life.facts.next_due_at, life.turn(30 * DAY)) == (Status.PAUSED, None, 0)


def test_pause_withdraws_a_queued_first_attempt_as_a_skip():
    life = a_life("queued")
    life.pause()
    assert (life.rows, life.executions) == ([], [])
    assert life.skipped == [("paused", *hours(1, 1), 1)]


def test_pause_ends_a_waiting_retry_as_cancelled_for_its_occurrence_has_its_record():
    life = a_life("backoff")
    life.pause()
    assert life.results == [(1, 0, Result.FAILED), (1, 1, Result.CANCELLED)]
    assert (life.rows, life.skips, life.facts.cancelled) == ([], [], 1)


def test_pause_lets_a_running_execution_finish_and_withdraws_who_waits():
    life = a_life("running", overlap=Overlap.QUEUE_ONE)
    life.turn(HOUR)
    life.pause()
    assert (life.status, life.only.running, life.only.cancel_asked_at) == (Status.RUNNING, True, None)
    assert life.skipped == [("paused", *hours(2, 2), 1)]
    life.settle()
    assert life.status is Status.PAUSED


def test_pause_ends_a_queued_run_by_hand_as_cancelled():
    life = a_life("scheduled")
    life.run()
    life.pause()
    assert (life.rows, life.results[-1], life.skips) == ([], (2, 0, Result.CANCELLED), [])


@pytest.mark.parametrize("state", ["queued", "backoff"])
def test_the_only_execution_of_a_paused_run_once_waits_for_the_resume(state):
    life = a_life(state, every=None, at=NOW)
    life.pause()
    assert (life.status, life.only.waits_for, life.startable) == (Status.PAUSED, WaitsFor.RESUME, [])
    life.advance(SECOND)
    life.resume()
    assert life.only.waits_for is (WaitsFor.TIME if state == "backoff" else None)


def test_pause_takes_back_what_was_fired_ahead_and_it_has_no_record():
    life = a_life("scheduled")
    life.turn(HOUR - AHEAD, ahead=AHEAD)
    life.pause()
    assert (life.rows, life.skips, life.facts.last_due_at) == ([], [], NOW + HOUR)
    life.advance(AHEAD)
    life.resume()
    assert life.skipped == [("paused", *hours(2, 2), 1)]


def test_a_paused_ended_job_that_was_run_once_more_goes_back_to_its_ending():
    life = a_life("failed")
    life.run()
    life.pause()
    assert (life.rows, life.status) == ([], Status.FAILED)


# -- resume


def test_resume_of_an_interval_counts_from_now_and_the_time_between_is_one_skip():
    life = a_life("paused")
    life.advance(5 * HOUR + 20 * MINUTE)
    life.resume()
    assert life.skipped == [("paused", *hours(2, 6), 5)]
    assert (life.facts.anchor, life.facts.next_due_at) == (life.now, life.now + HOUR)
    assert life.rows == []


def test_resume_of_a_cron_goes_on_with_the_next_match():
    life = Life(cron="0 * * * *")
    life.pause()
    life.advance(2 * HOUR + 20 * MINUTE)
    life.resume()
    assert life.skipped == [("paused", *hours(1, 2), 2)]
    assert life.facts.next_due_at == NOW + 3 * HOUR


def test_what_was_withdrawn_and_what_came_due_since_are_one_skip():
    life = a_life("queued")
    life.pause()
    life.advance(3 * HOUR)
    life.resume()
    assert life.skipped == [("paused", *hours(1, 4), 4)]


def test_resume_never_catches_up():
    life = a_life("paused", catch_up=CatchUp.ALL)
    life.advance(5 * HOUR + 20 * MINUTE)
    life.resume()
    assert (life.turn(), life.rows) == (0, [])


def test_resume_keeps_the_counters():
    life = a_life("paused")
    life.advance(DAY)
    life.resume()
    assert (life.facts.completed, life.facts.repeats_done, life.facts.last_number) == (1, 1, 1)


def test_a_start_yet_to_come_stays_where_it_is():
    life = Life(every=HOUR, start_at=NOW + 5 * HOUR)
    life.pause()
    life.advance(HOUR)
    life.resume()
    assert (life.facts.next_due_at, life.skips) == (NOW + 5 * HOUR, [])


def test_resume_counts_from_now_also_where_the_grid_began_at_a_start():
    life = Life(every=HOUR, start_at=NOW - 30 * DAY - 10 * MINUTE)
    life.pause()
    life.advance(2 * HOUR)
    life.resume()
    assert life.skipped == [("paused", NOW + 50 * MINUTE, NOW + 110 * MINUTE, 2)]
    assert life.facts.next_due_at == life.now + HOUR


@pytest.mark.parametrize("catch_up", CatchUp)
def test_an_overdue_run_once_starts_at_the_resume(catch_up):
    life = Life(at=NOW + HOUR, catch_up=catch_up)
    life.pause()
    life.advance(DAY)
    life.resume()
    assert (life.only.due_at, life.startable, life.status) == (NOW + HOUR, [life.only], Status.PENDING)


def test_an_overdue_run_once_waits_for_its_turn_behind_a_run_by_hand():
    life = Life(at=NOW + HOUR)
    life.pause()
    life.advance(DAY)
    life.run()
    life.resume()
    assert (life.waiting.due_at, life.waiting.asked) == (NOW + HOUR, Asked.SCHEDULE)
    life.run_one()
    life.run_one()
    assert life.status is Status.COMPLETED


def test_an_overdue_run_once_for_which_there_is_no_place_is_a_skip():
    life = Life(at=NOW + HOUR)
    life.pause()
    life.advance(DAY)
    life.run()
    running = life.claim()
    life.run()
    life.resume()
    assert life.skipped == [("overlap", NOW + HOUR, NOW + HOUR, 1)]
    assert life.skips[0].in_the_way == running.id


def test_a_run_once_that_is_not_due_yet_waits_for_its_time_after_the_resume():
    life = Life(at=NOW + DAY)
    life.pause()
    life.advance(HOUR)
    life.resume()
    assert (life.rows, life.facts.next_due_at) == ([], NOW + DAY)


def test_a_schedule_that_has_come_to_its_end_meanwhile_completes_at_the_resume():
    life = a_life("paused", end_at=NOW + 3 * HOUR)
    life.advance(DAY)
    assert life.status is Status.PAUSED
    life.resume()
    assert (life.status, life.skipped) == (Status.COMPLETED, [("paused", *hours(2, 3), 2)])


def test_a_fixed_delay_goes_on_one_period_after_the_resume():
    life = Life(every=HOUR, fixed_delay=True)
    life.pause()
    life.advance(DAY)
    life.resume()
    assert (life.facts.next_due_at, life.skips) == (life.now + HOUR, [])


@pytest.mark.parametrize(("paused_for", "next_in"), [(HOUR, 5 * HOUR), (7 * HOUR, HOUR)])
def test_a_used_up_budget_is_not_whole_again_by_a_resume(paused_for, next_in):
    life = Life(
        every=HOUR, max_retries=1, retry_reset_period=6 * HOUR, when_exhausted=WhenExhausted.WAIT_RESET
    )
    life.turn(HOUR)
    life.fail()
    life.pause()
    life.advance(paused_for)
    life.resume()
    assert (life.facts.next_due_at, life.rows) == (life.now + next_in, [])
    assert life.facts.reset_at == (life.facts.next_due_at if paused_for < 6 * HOUR else None)


def test_a_manual_job_can_be_paused_and_resumed():
    life = Life(manual=True)
    life.run()
    life.pause()
    assert (life.only.waits_for, life.status) == (WaitsFor.RESUME, Status.PAUSED)
    life.resume()
    assert (life.startable, life.status) == ([life.only], Status.PENDING)


def test_a_resume_does_not_begin_the_schedule_of_an_ended_job():
    life = Life(at=NOW, max_retries=0)
    life.fail()
    life.advance(HOUR)
    life.edit(schedule=Once(NOW + MINUTE))
    life.run()
    life.pause()
    life.resume()
    assert life.only.asked is Asked.HAND


# -- cancel and delete


@pytest.mark.parametrize("command", ["cancel", "delete"])
@pytest.mark.parametrize(
    ("state", "results"),
    [
        ("queued", [(1, 0, Result.CANCELLED)]),
        ("backoff", [(1, 0, Result.FAILED), (1, 1, Result.CANCELLED)]),
        ("paused", [(1, 0, Result.COMPLETED)]),
    ],
)
def test_cancel_and_delete_withdraw_what_waits(command, state, results):
    life = a_life(state)
    getattr(life, command)()
    assert (life.rows, life.results, life.facts.next_due_at) == ([], results, None)


@pytest.mark.parametrize("command", ["cancel", "delete"])
def test_cancel_and_delete_stop_what_runs(command):
    life = a_life("running")
    getattr(life, command)()
    assert (life.only.cancel_asked_at, life.only.cancel_by) == (life.now, "me")


@pytest.mark.parametrize(
    ("state", "reason"), [("scheduled", SkipReason.MISSED), ("paused", SkipReason.PAUSED)]
)
def test_what_had_come_due_before_a_cancel_has_its_record(state, reason):
    life = a_life(state)
    life.advance(2 * HOUR)
    life.cancel()
    assert life.skipped == [(reason, *hours(2, 3), 2)]


@pytest.mark.parametrize(("late", "skipped"), [(0 * SECOND, 1), (HOUR, 1), (-SECOND, 0)])
def test_a_fixed_delay_has_one_due_time_at_most_before_a_cancel(late, skipped):
    life = Life(every=HOUR, fixed_delay=True)
    life.advance(HOUR + late)
    life.cancel()
    assert life.skipped == [("missed", *hours(1, 1), 1)] * skipped


def test_the_time_until_a_reset_is_no_due_time_of_a_fixed_delay():
    life = Life(
        every=HOUR,
        fixed_delay=True,
        max_retries=1,
        retry_reset_period=DAY,
        when_exhausted=WhenExhausted.WAIT_RESET,
    )
    life.turn(HOUR)
    life.fail()
    life.advance(2 * DAY)
    life.cancel()
    assert life.skips == []


@pytest.mark.parametrize("state", ["failed", "completed", "cancelled"])
def test_what_comes_after_the_end_is_not_due(state):
    life = a_life(state)
    life.advance(3 * HOUR)
    life.delete()
    assert life.skips == []


# -- edit


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


@pytest.mark.parametrize(
    ("state", "reason"), [("scheduled", SkipReason.MISSED), ("paused", SkipReason.PAUSED)]
)
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
    assert (life.only.asked, life.startable) == (Asked.HAND, [life.only])


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


# -- retry


def test_a_retry_goes_on_with_the_failed_occurrence_with_a_fresh_budget_at_once():
    life = a_life("failed", window=Window(start=time(13), end=time(13, 30)))
    life.advance(90 * MINUTE)
    life.retry()
    assert (life.only.number, life.only.attempt, life.only.due_at) == (1, 1, NOW + HOUR)
    assert (life.only.failures, life.only.run_at, life.startable) == (0, life.now, [life.only])
    assert life.status is Status.PENDING


def test_after_a_retry_the_schedule_goes_on_from_its_next_time_and_the_gap_is_a_skip():
    life = a_life("failed")
    life.advance(3 * HOUR + 20 * MINUTE)
    life.retry()
    assert life.skipped == [("failed", *hours(2, 4), 3)]
    assert life.facts.next_due_at == NOW + 5 * HOUR
    life.run_one()
    assert life.status is Status.SCHEDULED


def test_a_retry_that_fails_fails_the_job_again():
    life = a_life("failed")
    life.retry()
    life.fail()
    assert (life.status, life.facts.failed) == (Status.FAILED, 2)


def test_a_retry_of_a_run_once_decides_how_it_ends():
    life = Life(at=NOW, max_retries=0)
    life.fail()
    life.retry()
    assert life.status is Status.PENDING
    life.run_one()
    assert (life.status, life.results) == (
        Status.COMPLETED,
        [(1, 0, Result.FAILED), (1, 1, Result.COMPLETED)],
    )


def test_a_retry_gives_three_more_losses():
    life = Life(at=NOW, max_retries=0)
    for _ in range(3):
        life.retry_comes()
        life.lose()
    life.retry()
    assert (life.only.losses, life.only.attempt) == (0, 3)


def test_a_retry_clears_the_budget_of_the_period():
    life = a_life("failed", retry_reset_period=DAY)
    life.retry()
    assert (life.facts.period_failures, life.facts.period_start) == (0, None)


def test_a_failed_job_without_an_execution_cannot_be_retried():
    life = a_life("failed")
    life.executions.clear()
    with pytest.raises(Conflict, match="run it, or restart it"):
        life.retry()


# -- run


def test_a_run_makes_an_extra_occurrence_and_never_moves_the_schedule():
    life = a_life("scheduled")
    life.advance(20 * MINUTE)
    life.run(OTHER)
    assert (life.only.number, life.only.asked, life.only.due_at) == (2, Asked.HAND, life.now)
    assert (life.only.args, life.startable, life.status) == (OTHER, [life.only], Status.PENDING)
    life.run_one()
    assert (life.facts.next_due_at, life.facts.repeats_done) == (NOW + 2 * HOUR, 1)


def test_a_run_starts_outside_the_window_for_a_person_wants_it():
    life = a_life("queued", window=Window(start=time(20), end=time(21)))
    life.run()
    assert life.only.run_at == life.now


@pytest.mark.parametrize("args", [None, OTHER])
def test_while_one_runs_a_run_takes_the_waiting_place_and_a_second_is_refused(args):
    life = a_life("running")
    life.run(args)
    assert (life.waiting.asked, life.waiting.waits_for) == (Asked.HAND, WaitsFor.TURN)
    with pytest.raises(Conflict, match="another run is waiting already"):
        life.run(args)
    life.settle(SUCCESS, life.running[0])
    assert (life.only.slot, life.only.args, life.startable) == (0, args, [life.only])


def test_while_one_runs_a_run_takes_a_free_slot():
    life = a_life("running", overlap=Overlap.ALLOW, max_overlap=2)
    life.run()
    assert sorted(live.slot for live in life.rows) == [0, 1]
    life.run()
    assert life.waiting is not None


@pytest.mark.parametrize("state", ["queued", "backoff"])
def test_while_one_only_waits_a_run_starts_that_one_now(state):
    life = a_life(state)
    before = life.only
    life.advance(10 * SECOND)
    life.run()
    assert (life.only.id, life.only.number, life.startable) == (before.id, 1, [life.only])


@pytest.mark.parametrize(
    ("state", "results", "skipped"),
    [
        ("queued", [], [("overlap", *hours(1, 1), 1)]),
        ("backoff", [(1, 0, Result.FAILED), (1, 1, Result.CANCELLED)], []),
    ],
)
def test_while_one_only_waits_a_run_with_other_args_replaces_it(state, results, skipped):
    life = a_life(state)
    life.run(OTHER)
    assert (life.only.number, life.only.args, life.only.slot) == (2, OTHER, 0)
    assert (life.results, life.skipped) == (results, skipped)


def test_a_run_starts_what_jitter_holds_back():
    life = a_life("queued", jitter=HOUR, seed=1)
    assert life.startable == []
    life.run()
    assert life.startable == [life.only]


def test_g5_a_run_does_not_start_early_what_was_fired_ahead():
    life = a_life("scheduled")
    life.turn(HOUR - AHEAD, ahead=AHEAD)
    life.run()
    assert [live.asked for live in life.startable] == []
    assert life.waiting.asked is Asked.HAND


def test_a_paused_job_can_be_run_and_stays_paused():
    life = a_life("paused")
    life.advance(SECOND)
    life.run()
    assert life.status is Status.PENDING
    life.run_one()
    assert (life.status, life.facts.next_due_at) == (Status.PAUSED, None)


def test_a_run_of_a_paused_run_once_starts_the_one_that_waits_for_the_resume():
    life = Life(at=NOW)
    life.pause()
    life.run()
    assert (life.only.number, life.startable, life.status) == (1, [life.only], Status.PENDING)
    life.run_one()
    assert life.status is Status.COMPLETED


@pytest.mark.parametrize("state", ["completed", "failed"])
@pytest.mark.parametrize("outcome", [SUCCESS, FAILURE, Cancelled()])
def test_an_ended_job_can_be_run_and_goes_back_to_its_ending(state, outcome):
    life = a_life(state)
    life.advance(3 * HOUR)
    life.run()
    assert life.status is Status.PENDING
    while life.rows:
        life.retry_comes()
        life.run_one(outcome)
    assert (life.status, life.facts.next_due_at, life.skips) == (state, None, [])


def test_an_ended_run_once_ends_as_its_last_occurrence_did():
    life = Life(at=NOW, max_retries=0)
    life.fail()
    life.run()
    life.run_one()
    assert life.status is Status.COMPLETED


def test_a_run_before_its_time_does_not_end_a_run_once():
    life = Life(at=NOW + HOUR, max_retries=0)
    for outcome in (SUCCESS, FAILURE, Cancelled()):
        life.run()
        life.run_one(outcome)
        assert (life.status, life.facts.next_due_at) == (Status.SCHEDULED, NOW + HOUR)


def test_a_run_once_is_not_ended_by_a_run_beside_it():
    life = Life(at=NOW, max_retries=1, overlap=Overlap.ALLOW, max_overlap=2)
    first = life.claim()
    life.run()
    life.run_one()
    life.settle(FAILURE, first)
    assert (life.only.number, life.only.attempt) == (1, 1)


def test_a_run_once_all_of_whose_occurrences_were_cancelled_is_cancelled():
    life = Life(at=NOW)
    life.run(OTHER)
    life.run_one(Cancelled())
    assert life.status is Status.CANCELLED


# -- restart


@pytest.mark.parametrize("state", ["completed", "failed"])
def test_a_restart_begins_as_new_and_the_counters_go_on(state):
    life = a_life(state)
    life.edit(end_at=None)
    life.advance(3 * HOUR + 20 * MINUTE)
    before = life.facts
    life.restart()
    facts = life.facts
    assert (life.status, facts.next_due_at, life.skips) == (Status.SCHEDULED, life.now + HOUR, [])
    assert (facts.repeats_done, facts.period_failures, facts.ended_as) == (0, 0, None)
    assert (facts.completed, facts.failed, facts.last_number) == (before.completed, before.failed, 1)


def test_a_restart_runs_at_once_where_the_first_run_is_now():
    life = Life(every=HOUR, first_run=FirstRun.NOW, total_repeats=1)
    life.run_one()
    assert life.status is Status.COMPLETED
    life.advance(20 * MINUTE)
    life.restart()
    assert (life.only.number, life.only.due_at, life.facts.next_due_at) == (2, life.now, life.now + HOUR)


def test_a_restarted_run_once_runs_at_once():
    life = Life(at=NOW)
    life.run_one()
    life.advance(HOUR)
    life.restart()
    assert (life.only.number, life.only.due_at, life.startable) == (2, NOW, [life.only])


def test_a_restart_beyond_the_end_completes_at_once():
    life = a_life("completed")
    life.advance(HOUR)
    life.restart()
    assert (life.status, life.rows) == (Status.COMPLETED, [])


def test_a_job_that_was_paused_when_it_ended_is_not_paused_after_a_restart():
    life = a_life("paused running", total_repeats=1)
    life.settle()
    life.restart()
    assert (life.status, life.facts.next_due_at) == (Status.SCHEDULED, life.now + HOUR)


# -- one execution


def test_a_running_execution_is_asked_to_stop():
    life = a_life("running")
    life.cancel_execution(life.only)
    assert (life.only.cancel_asked_at, life.only.cancel_by, life.executions) == (life.now, "me", [])
    assert life.told == ["execution.cancel_asked"]


def test_force_ends_the_record_of_what_cannot_be_stopped():
    life = a_life("running")
    life.cancel_execution(life.only, force=True)
    (ended,) = life.executions
    assert (ended.result, ended.by) == (Result.CANCELLED, "me")
    assert "its thread may still run" in ended.error
    assert (life.rows, life.status) == ([], Status.SCHEDULED)


@pytest.mark.parametrize("state", ["queued", "backoff"])
def test_a_waiting_execution_ends_as_cancelled_at_once(state):
    life = a_life(state)
    life.cancel_execution(life.only)
    assert (life.rows, life.executions[-1].result, life.status) == ([], Result.CANCELLED, Status.SCHEDULED)
    assert (life.executions[-1].by, life.told) == ("me", ["execution.cancelled"])


def test_a_release_takes_an_execution_from_its_worker_and_raises_its_fence():
    life = a_life("running")
    live = life.only
    life.release(live)
    assert (life.only.worker_id, life.only.fence, life.only.releases) == (None, live.fence + 1, 1)
    assert life.told == ["execution.released"]


def test_only_a_running_execution_can_be_released():
    life = a_life("queued")
    with pytest.raises(Conflict, match="only a running one"):
        life.release(life.only)
