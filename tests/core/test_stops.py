"""Every stop says how strong it was, and whether the work is known to be dead."""

from dataclasses import replace

import pytest

from ostinato.core.account import Stopped, stop_of, stop_of_job
from tests.build import NOW, WORKER, a_live


@pytest.mark.parametrize(
    ("outcome", "stopped", "asked", "started", "told", "dead"),
    [
        (None, None, True, True, "a thread cannot be killed", False),
        ("cancelled", None, False, False, "withdrawn before it started", True),
        ("cancelled", None, False, True, "it may still run", False),  # ended by force
        ("cancelled", "cooperative", False, True, "its thread ended by itself", True),
        ("timed_out", "cooperative", False, True, "its thread ended by itself", True),
        ("cancelled", "async", False, True, "coroutine", True),
        ("cancelled", "terminated", False, True, "SIGTERM", True),
        ("timed_out", "killed", False, True, "was killed", True),
    ],
)
def test_a_stop_says_how_strong_it_was(outcome, stopped, asked, started, told, dead):
    stop = stop_of(outcome, stopped, asked=asked, started=started)
    assert told in stop.sentence
    assert stop.dead is dead


@pytest.mark.parametrize("outcome", [None, "completed", "failed", "timed_out", "lost"])
def test_a_run_that_nobody_stopped_has_no_stop(outcome):
    assert stop_of(outcome, None, asked=False, started=True) is None


@pytest.mark.parametrize("stopped", Stopped)
def test_every_way_to_stop_has_its_sentence(stopped):
    assert stop_of("cancelled", stopped, asked=False, started=True).dead


def test_a_job_counts_its_runs_that_were_asked_to_stop():
    asked = replace(a_live(), worker_id=WORKER, started_at=NOW, cancel_asked_at=NOW)
    assert stop_of_job([a_live()]) is None
    assert stop_of_job([asked]).sentence.startswith("The run was asked to stop and is still running.")
    assert stop_of_job([asked, asked]).sentence.startswith("2 runs were asked to stop and are still running.")
