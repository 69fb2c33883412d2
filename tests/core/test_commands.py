"""What a state allows and refuses, how a job is stopped for good, and what may be asked of one execution."""

import json

import pytest

from ostinato.core.errors import Conflict, NotFound
from ostinato.core.model import SkipReason, Status
from ostinato.core.outcome import OutcomeKind
from ostinato.core.policy import WhenExhausted
from tests.build import DAY, HOUR, NOW, SECOND
from tests.core.life import Life, hours
from tests.core.states import a_life

# -- checks of the state

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


# -- cancel and delete


@pytest.mark.parametrize("command", ["cancel", "delete"])
@pytest.mark.parametrize(
    ("state", "results"),
    [
        ("queued", [(1, 0, OutcomeKind.CANCELLED)]),
        ("backoff", [(1, 0, OutcomeKind.FAILED), (1, 1, OutcomeKind.CANCELLED)]),
        ("paused", [(1, 0, OutcomeKind.COMPLETED)]),
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


@pytest.mark.parametrize(("state", "reason"), [("scheduled", SkipReason.MISSED), ("paused", SkipReason.PAUSED)])
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
    assert (ended.outcome, ended.by) == (OutcomeKind.CANCELLED, "me")
    assert "its thread may still run" in ended.error
    assert (life.rows, life.status) == ([], Status.SCHEDULED)


@pytest.mark.parametrize("state", ["queued", "backoff"])
def test_a_waiting_execution_ends_as_cancelled_at_once(state):
    life = a_life(state)
    life.cancel_execution(life.only)
    assert (life.rows, life.executions[-1].outcome, life.status) == (
        [],
        OutcomeKind.CANCELLED,
        Status.SCHEDULED,
    )
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
