"""The checker of lives itself: a rule that forgets something is found out."""

from dataclasses import replace

import pytest

from ostinato.core.lifecycle import next_time
from ostinato.core.lifecycle.draft import Draft
from ostinato.core.outcome import Lost
from ostinato.core.policy import Overlap
from ostinato.core.schedule import Cron
from tests.build import HOUR, MINUTE
from tests.core.faults import faults
from tests.core.life import FAILURE, Life


def an_eventful_life():
    """Absence, overlap, failure, loss, pause, edit, cancel: enough for every look of the checker."""
    life = Life(every=HOUR, overlap=Overlap.QUEUE_ONE, max_retries=1)
    life.turn(5 * HOUR)
    life.claim()
    life.turn(HOUR)
    life.turn(HOUR)
    yield life
    life.settle(FAILURE)
    life.turn(MINUTE)
    life.run_one(Lost())
    life.run_one(FAILURE)
    yield life
    life.run_one()
    life.run()
    life.turn(HOUR)
    life.pause()
    life.advance(3 * HOUR)
    life.resume()
    life.turn(2 * HOUR)
    life.edit(schedule=Cron("*/5 * * * *"))
    yield life
    life.run_one()
    life.turn(HOUR)
    life.claim()
    life.run()
    yield life
    life.pause()
    life.settle(FAILURE, life.running[0])
    yield life
    life.resume()
    life.advance(HOUR)
    life.cancel()
    yield life


def test_the_checker_finds_nothing_wrong_with_an_eventful_life():
    assert [fault for life in an_eventful_life() for fault in faults(life)] == []


def forget_the_skip(self, reason, first, last, count, in_the_way=None):
    self.dealt_with(last)


def forget_to_count(self, live, outcome, *what, **how):
    before = replace(self.facts)
    ended = RECORD(self, live, outcome, *what, **how)
    setattr(self.facts, outcome.value, getattr(before, outcome.value))
    return ended


def record_it_twice(self, reason, after, until):
    SKIP_BETWEEN(self, reason, after, until)
    SKIP_BETWEEN(self, reason, after, until)


def reuse_the_attempt(self, ended, run_at, slot, **carried):
    QUEUE_AGAIN(self, replace(ended, attempt=ended.attempt - 1), run_at, slot, **carried)


RECORD, SKIP_BETWEEN, QUEUE_AGAIN = Draft._record, Draft.skip_between, Draft.queue_again


@pytest.mark.parametrize(
    ("where", "name", "mutant"),
    [
        (Draft, "skip", forget_the_skip),
        (Draft, "_record", forget_to_count),
        (Draft, "skip_between", record_it_twice),
        (Draft, "queue_again", reuse_the_attempt),
        (Draft, "held_by_pause", lambda self, row: False),
        (Draft, "free_slot", lambda self: 0),
        (next_time, "close_gap", lambda draft: None),
        (next_time, "skip_gap", lambda draft, reason: None),
        (next_time, "let_in", lambda draft: None),
        (next_time, "name_next", lambda draft, after: None),
    ],
)
def test_the_checker_finds_a_rule_that_forgets_something(monkeypatch, where, name, mutant):
    monkeypatch.setattr(where, name, mutant)
    try:
        found = [fault for life in an_eventful_life() for fault in faults(life)]
    except (AssertionError, IndexError, ValueError) as stopped:  # the life could not go on like that
        found = [str(stopped)]
    assert found
