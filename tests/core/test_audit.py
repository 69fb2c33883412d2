"""The auditor finds no flaw in any life that the rules have made."""

from dataclasses import replace

import pytest

from ostinato.core.audit import FlawKind, Past, audit, unreadable
from ostinato.core.outcome import Error, Failed
from ostinato.core.policy import CatchUp
from tests.build import HOUR, MINUTE, WORKER, a_job
from tests.core.life import SUCCESS, Life
from tests.core.random_lives import RandomLife

EVERY_DAY = range(300)
STEPS, LOOKS = 12, 4
SOAK, BATCH = 100_000, 1000


def first_flaw(seeds: range) -> str:
    """The story of the first life with a flaw; empty if there is none."""
    for seed in seeds:
        random_life = RandomLife(seed)
        for _ in range(LOOKS):
            random_life.go_on(STEPS)
            if flaws := random_life.flaws():
                return "\n".join([f"seed {seed}", *random_life.story, *(flaw.sentence for flaw in flaws)])
    return ""


def test_random_lives_have_no_flaw():
    assert first_flaw(EVERY_DAY) == ""


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(0, SOAK, BATCH))
def test_100_000_random_lives_have_no_flaw(first):
    assert first_flaw(range(first, first + BATCH)) == ""


def flaws_of(life: Life) -> set[FlawKind]:
    past = Past(life.events, workers=frozenset({WORKER}))
    return {flaw.kind for flaw in audit(life.job, life.rows, life.executions, life.skips, past, life.now)}


def test_a_due_time_before_an_edit_of_the_schedule_is_not_recomputed():
    life = Life(every=HOUR)
    for _ in range(3):
        life.turn(HOUR)
        life.run_one()
    lost = life.executions.pop(0)
    life.job = replace(life.job, facts=replace(life.facts, completed=2, repeats_done=2))
    assert flaws_of(life) == {FlawKind.NO_RECORD, FlawKind.NUMBER}
    life.advance(MINUTE)
    life.edit(schedule=replace(life.job.schedule, period=2 * HOUR))
    assert flaws_of(life) <= {FlawKind.NUMBER}
    assert lost.due_at not in {each.due_at for each in life.executions}


def test_a_job_whose_settle_will_name_the_next_time_has_no_flaw():
    for policies in ({"fixed_delay": True}, {"catch_up": CatchUp.ALL}):
        life = Life(every=HOUR, **policies)
        life.advance(5 * HOUR)
        life.fire()
        if life.facts.next_due_at is not None:
            life.fire()
        assert life.facts.next_due_at is None
        assert flaws_of(life) == set()


def test_a_job_whose_next_time_nobody_names_is_a_flaw():
    life = Life(every=HOUR)
    life.turn(HOUR)
    life.job.facts.next_due_at = None
    assert flaws_of(life) == {FlawKind.NEXT_DUE}


@pytest.mark.parametrize(
    ("policies", "outcome"),
    [
        ({"max_retries": 0, "when_exhausted": "fail"}, Failed(Error("ValueError", "no"))),
        ({"total_repeats": 1}, SUCCESS),
    ],
    ids=["failed", "completed"],
)
def test_a_row_whose_due_time_a_slow_clock_takes_back_is_no_flaw_when_the_job_ends(policies, outcome):
    """Seed 190 of the simulation: the job ended while its second due time had not come any more."""
    life = Life(every=HOUR, overlap="queue_one", **policies)
    life.turn(HOUR)
    run = life.claim()
    life.turn(HOUR)
    life.advance(-2 * MINUTE)
    life.settle(outcome, run)
    assert (life.rows, life.job.facts.ended_as is None) == ([], False)
    assert flaws_of(life) == set()


def test_a_retry_that_a_person_asked_for_has_a_fresh_budget():
    life = Life(every=HOUR, max_retries=0, when_exhausted="fail")
    life.turn(HOUR)
    life.run_one(Failed(Error("ValueError", "no")))
    life.advance(MINUTE)
    life.retry()
    life.run_one()
    assert flaws_of(life) == set()
    life.events = []
    assert flaws_of(life) == {FlawKind.BUDGET}


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("schedule", "{"),
        ("schedule", '{"cron": "61 * * * *"}'),
        ("schedule", "[" * 5000),
        ("policies", "[]"),
        ("args", "{'n': 1}"),
        ("args", "[1]"),
        ("metadata", "[" * 5000),
        ("tags", "{"),
    ],
)
def test_a_column_that_cannot_be_read_is_a_flaw(column, text):
    sound = {"schedule": '{"every": "1h"}', "policies": "{}", "args": "{}", "metadata": "{}", "tags": "[]"}
    job_id = a_job().id
    assert unreadable(job_id, sound) == []
    (flaw,) = unreadable(job_id, sound | {column: text})
    assert flaw.kind is FlawKind.UNREADABLE
    assert column in flaw.sentence
