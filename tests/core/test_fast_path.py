"""The shortcuts for plain firings and plain successes say what the rules say.

Every firing and every success in the random lives of test_lifecycle_properties.py is compared too (`Life.fire`,
`Life.settle`).
"""

from dataclasses import replace
from datetime import time

import pytest

from ostinato.core.lifecycle.fast_path import fire_plainly, last_time, may_be_plain
from ostinato.core.model import Finished
from ostinato.core.outcome import Lost
from ostinato.core.policy import CatchUp, Overlap
from ostinato.core.times import Window
from tests.build import HOUR, MINUTE, NOW, SECOND, FixedChance, a_definition, a_live
from tests.core.life import FAILURE, SUCCESS, Life, is_plain, plainly


def due(by=HOUR, **given):
    """A life of which nothing is live, some time after its beginning."""
    life = Life(**given)
    life.advance(by)
    return life


def fired(life):
    return fire_plainly(life.job, life.now, FixedChance())


@pytest.mark.parametrize(
    "given",
    [
        {"every": HOUR},
        {"cron": "0 * * * *"},
        {"every": HOUR, "by": HOUR - SECOND / 2},  # ahead of its time
        {"every": HOUR, "overlap": Overlap.ALLOW, "max_overlap": 3},
        {"every": HOUR, "catch_up": CatchUp.ALL},
        {"every": HOUR, "total_repeats": 1},
        {"every": HOUR, "end_at": NOW + 2 * HOUR},
    ],
    ids=["every", "cron", "ahead", "allow", "catch up", "repeats", "ends later"],
)
def test_a_plain_firing_is_seen_and_is_what_the_rule_says(given):
    life = due(**given)
    assert fired(life) is not None
    life.fire()  # compares
    assert len(life.lives) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"every": HOUR, "by": HOUR - 2 * SECOND},
        {"every": HOUR, "by": 2 * HOUR},
        {"every": HOUR, "by": HOUR + 10 * MINUTE, "late_after": 5 * MINUTE},
        {"every": HOUR, "end_at": NOW + HOUR},
        {"every": HOUR, "fixed_delay": True},
        {"every": HOUR, "jitter": MINUTE},
        {"every": HOUR, "window": Window(start=time(9), end=time(17))},
        {"every": HOUR, "max_concurrency": 2},
        {"at": NOW + HOUR},
    ],
    ids=["early", "missed", "late", "last", "fixed delay", "jitter", "window", "limited", "once"],
)
def test_what_else_there_is_to_decide_is_left_to_the_rule(given):
    assert fired(due(**given)) is None


@pytest.mark.parametrize("act", ["pause", "cancel", "delete"])
def test_what_somebody_has_stopped_is_not_fired(act):
    life = due(every=HOUR)
    getattr(life, act)()
    assert fired(life) is None


def running(**given):
    """A life whose first occurrence is running."""
    life = Life(**given)
    if not life.lives:
        life.advance(HOUR)
        life.turn()
    life.claim()
    return life


def verdict(life, outcome=SUCCESS):
    return plainly(life.job, life.rows, life.running[0], outcome, life.now)


@pytest.mark.parametrize(
    "given",
    [
        {"at": NOW},
        {"every": HOUR},
        {"cron": "0 * * * *"},
        {"every": HOUR, "overlap": Overlap.ALLOW, "max_overlap": 3},
    ],
    ids=["once", "every", "cron", "allow"],
)
def test_a_plain_success_is_seen_and_settles_as_the_rule_says(given):
    life = running(**given)
    expected = verdict(life)
    assert expected is not None
    life.settle()
    assert life.job.facts == expected


@pytest.mark.parametrize(
    "given",
    [
        {"every": HOUR, "total_repeats": 2},
        {"every": HOUR, "fixed_delay": True},
        {"every": HOUR, "catch_up": CatchUp.ALL},
    ],
    ids=["repeats", "fixed delay", "catch up"],
)
def test_what_a_success_may_change_is_left_to_the_rule(given):
    assert verdict(running(**given)) is None


@pytest.mark.parametrize("outcome", [FAILURE, Lost()], ids=["failed", "lost"])
def test_only_a_success_is_plain(outcome):
    assert verdict(running(every=HOUR), outcome) is None


@pytest.mark.parametrize("act", ["pause", "cancel", "delete", "run"])
def test_what_somebody_has_touched_is_left_to_the_rule(act):
    life = running(every=HOUR)
    getattr(life, act)()
    assert verdict(life) is None


@pytest.mark.parametrize(
    ("last_due_at", "names_next", "expected"),
    [(None, True, False), (NOW + MINUTE, False, False), (NOW + HOUR, False, True), (NOW + HOUR, True, False)],
    ids=["before its time", "fired for an earlier time", "fired", "fired, and due again"],
)
def test_the_success_of_a_run_once_is_plain_when_its_time_was_fired(last_due_at, names_next, expected):
    last = last_time(a_definition(at=NOW + HOUR))
    assert last == NOW + HOUR
    assert is_plain(last, last_due_at, names_next=names_next) is expected


def test_a_schedule_whose_next_time_the_settle_must_name_is_left_to_the_rule():
    last = last_time(a_definition(every=HOUR))
    assert last is None
    assert is_plain(last, NOW, names_next=True)
    assert not is_plain(last, NOW, names_next=False)


def test_a_manual_job_is_left_to_the_rule():
    assert not may_be_plain(Finished(a_live(running=True), SUCCESS, NOW, a_definition(manual=True)))


def test_a_step_of_a_workflow_and_a_run_without_its_definition_are_left_to_the_rule():
    live = a_live(running=True)
    definition = a_definition(every=HOUR)
    assert may_be_plain(Finished(live, SUCCESS, NOW, definition))
    assert not may_be_plain(Finished(live, SUCCESS, NOW))
    assert not may_be_plain(Finished(replace(live, slot=None), SUCCESS, NOW, definition))
