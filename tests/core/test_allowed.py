"""What is offered is what the commands accept, in every state."""

import pytest

from ostinato.core import lifecycle
from ostinato.core.errors import Conflict
from ostinato.core.model import Ending, Status
from tests.build import CHANCE, NOW, a_job, a_live, an_execution

EVERY_STATE = {
    Status.SCHEDULED: (a_job(), []),
    Status.PENDING: (a_job(manual=True), []),
    Status.PAUSED: (a_job(paused_at=NOW), []),
    Status.COMPLETED: (a_job(ended_at=NOW, ended_as=Ending.COMPLETED), []),
    Status.FAILED: (a_job(ended_at=NOW, ended_as=Ending.FAILED), []),
    Status.CANCELLED: (a_job(cancelled_at=NOW), []),
}


def _ask(command, job, lives):
    rule = getattr(lifecycle, command)
    given = {"retry": (an_execution(job),), "run": (None,)}.get(command, ())
    rule(job, lives, *given, NOW, CHANCE)


@pytest.mark.parametrize("command", lifecycle.ALLOWED)
@pytest.mark.parametrize("state", EVERY_STATE)
def test_a_command_is_offered_exactly_where_it_is_accepted(state, command):
    job, lives = EVERY_STATE[state]
    assert lifecycle.status(job, lives) is state
    if command in lifecycle.allowed(state):
        _ask(command, job, lives)
    else:
        with pytest.raises(Conflict):
            _ask(command, job, lives)


def test_a_paused_job_that_still_runs_can_be_resumed_and_not_paused_again():
    job = a_job(paused_at=NOW)
    lives = [a_live(job, running=True)]
    found = lifecycle.allowed(lifecycle.status(job, lives), is_paused=True)
    assert "resume" in found
    assert "pause" not in found
    _ask("resume", job, lives)
    with pytest.raises(Conflict):
        _ask("pause", job, lives)


@pytest.mark.parametrize("running", [True, False])
def test_what_runs_or_waits_can_be_paused_and_cancelled(running):
    job = a_job()
    live = a_live(job, running=running)
    state = lifecycle.status(job, [live])
    assert {"pause", "cancel", "delete", "run"} <= set(lifecycle.allowed(state))
    for command in ("pause", "cancel", "delete", "run"):
        _ask(command, job, [live])
