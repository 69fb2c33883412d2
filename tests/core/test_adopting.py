"""Adoption of jobs from other systems: what they were comes along, and the auditor finds nothing wrong."""

from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ostinato.core.audit import Past, Pruned, audit
from ostinato.core.lifecycle import FormerState, PastRun, adopt, fire, resume, settle, status
from ostinato.core.model import EPOCH, AskedBy, Ending, Job, Status, WaitsFor
from ostinato.core.outcome import Completed, OutcomeKind
from ostinato.core.policy import CatchUp, WhenExhausted
from tests.build import CHANCE, DAY, HOUR, MINUTE, NOW, SECOND, WORKER, a_definition

JOB = UUID("7b1f3d6e-5a31-4f0e-9a57-0c5f8f3c2a10")  # as other systems make them: not in the order of time
DONE, FAILED = OutcomeKind.COMPLETED, OutcomeKind.FAILED


def adopted(state=None, definition=None, **given):
    return adopt(
        JOB, definition or a_definition(every=HOUR), state or FormerState(**given), NOW, CHANCE, "ada", "test-1"
    )


def flaws(made, now=NOW):
    noted = dict(made.pruned)
    until = EPOCH + timedelta(microseconds=noted.pop("until")) if "until" in noted else EPOCH
    pruned = Pruned({name: count for name, count in noted.items() if name != "number"}, until, noted.get("number", 0))
    change = made.change
    return audit(change.job, change.add, change.ended, change.skips, Past(change.events, pruned), now)


def a_run(hours_ago, outcome=DONE, attempt=0, number=None, minutes=1):
    started = NOW - hours_ago * HOUR
    return PastRun(
        started_at=started, finished_at=started + minutes * MINUTE, outcome=outcome, attempt=attempt,
        execution_number=number,
    )  # fmt: skip


@pytest.mark.parametrize("minutes", [-3 * 24 * 60, -90, -1, 0, 1, 45, 60, 400])
def test_an_interval_is_due_next_when_it_was_due_there(minutes):
    made = adopted(next_at=NOW + minutes * MINUTE)
    assert made.change.job.facts.next_due_at == NOW + minutes * MINUTE
    assert flaws(made) == []


@pytest.mark.parametrize("hours", [-20, 21, 45])
def test_a_cron_job_is_due_next_when_it_was_due_there(hours):
    due = NOW + hours * HOUR
    made = adopted(definition=a_definition(cron=f"0 {due.hour} * * *"), next_at=due)
    assert made.change.job.facts.next_due_at == due
    assert flaws(made) == []


def test_a_next_time_that_the_expression_never_names_is_the_next_match():
    made = adopted(definition=a_definition(cron="0 9 * * *"), next_at=NOW + 7 * MINUTE)
    assert made.change.job.facts.next_due_at == NOW + 21 * HOUR
    assert flaws(made) == []


def test_an_overdue_job_runs_once_and_goes_on_as_its_grid_says():
    made = adopted(next_at=NOW - 90 * MINUTE)
    fired = fire(made.change.job, (), NOW, CHANCE)
    assert [live.due_at for live in fired.add] == [NOW - 30 * MINUTE]
    assert [skip.count for skip in fired.skips] == [1]
    assert fired.job.facts.next_due_at == NOW + 30 * MINUTE


def test_counters_come_along_and_equal_history_and_what_is_missing():
    runs = [a_run(3, number=40), a_run(2, FAILED, number=41), a_run(1, number=42)]
    made = adopted(counted={DONE: 40, FAILED: 2}, repeats_done=39, next_at=NOW + MINUTE, runs=runs)
    facts = made.change.job.facts
    assert (facts.completed, facts.failed, facts.repeats_done) == (40, 2, 39)
    assert [each.execution_number for each in made.change.ended] == [40, 41, 42]
    assert (facts.last_execution_number, facts.last_number) == (42, 42)
    assert {name: made.pruned[name] for name in ("completed", "failed")} == {"completed": 38, "failed": 1}
    assert flaws(made) == []


def test_attempts_at_one_occurrence_stay_together():
    runs = [a_run(5), a_run(4, FAILED), a_run(3, FAILED, attempt=1), a_run(2, attempt=2), a_run(1)]
    ended = adopted(next_at=NOW, runs=runs).change.ended
    assert [(each.number, each.attempt, each.failures) for each in ended] == [
        (1, 0, 0), (2, 0, 0), (2, 1, 1), (2, 2, 2), (3, 0, 0),
    ]  # fmt: skip
    assert all(each.asked is AskedBy.SCHEDULE for each in ended)


def test_records_of_runs_are_in_the_order_of_time():
    ended = adopted(runs=[a_run(1), a_run(30), a_run(2)]).change.ended
    assert [each.id for each in ended] == sorted(each.id for each in ended)
    assert [each.started_at for each in ended] == [NOW - 30 * HOUR, NOW - 2 * HOUR, NOW - HOUR]


@pytest.mark.parametrize("runs", [(), (a_run(2, FAILED), a_run(1, FAILED, attempt=1)), (a_run(1),)])
def test_a_retry_waits_until_its_time_with_its_failures(runs):
    made = adopted(next_at=NOW + 2 * MINUTE, failures=2, runs=runs, last_at=NOW - HOUR)
    (live,) = made.change.add
    assert (live.attempt, live.failures, live.run_at, live.waits_for) == (2, 2, NOW + 2 * MINUTE, WaitsFor.TIME)
    assert made.change.job.facts.next_due_at == NOW + 2 * MINUTE + HOUR
    assert status(made.change.job, made.change.add) is Status.SCHEDULED
    assert flaws(made) == []
    assert {(each.number, each.attempt) for each in made.change.ended}.isdisjoint({(live.number, live.attempt)})


def test_a_retry_that_is_overdue_runs_at_once():
    (live,) = adopted(next_at=NOW - MINUTE, failures=1).change.add
    assert (live.waits_for, live.run_at) == (None, NOW - MINUTE)


def test_a_paused_job_stays_paused_and_goes_on_after_a_resume():
    made = adopted(paused_at=NOW - DAY, next_at=NOW - DAY, counted={DONE: 3})
    assert (made.change.job.facts.paused_at, made.change.job.facts.next_due_at) == (NOW - DAY, None)
    assert flaws(made) == []
    assert resume(made.change.job, (), NOW + MINUTE, CHANCE).job.facts.next_due_at == NOW + MINUTE + HOUR


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ({"ended_at": NOW - DAY}, Status.COMPLETED),
        ({"ended_at": NOW - DAY, "ended_as": Ending.FAILED}, Status.FAILED),
        ({"cancelled_at": NOW - DAY}, Status.CANCELLED),
    ],
)
def test_a_job_that_is_over_stays_so(state, word):
    made = adopted(**state, counted={DONE: 2, FAILED: 1}, next_at=NOW)
    assert status(made.change.job, made.change.add) is word
    assert (made.change.add, made.change.job.facts.next_due_at) == ((), None)
    assert flaws(made) == []


def test_a_run_once_job_that_waits_is_queued_and_a_paused_one_waits_for_the_resume():
    once = a_definition(at=NOW - HOUR)
    (live,) = adopted(definition=once).change.add
    assert (live.waits_for, live.due_at) == (None, NOW - HOUR)
    made = adopted(definition=once, paused_at=NOW - MINUTE)
    assert [live.waits_for for live in made.change.add] == [WaitsFor.RESUME]
    assert flaws(made) == []


def test_a_spent_retry_budget_waits_for_its_reset():
    source = a_definition(every=DAY, max_retries=5, retry_reset_period=DAY, when_exhausted=WhenExhausted.WAIT_RESET)
    made = adopted(definition=source, next_at=NOW - HOUR, period_start=NOW - 3 * HOUR, period_failures=5)
    assert (made.change.job.facts.reset_at, made.change.job.facts.next_due_at) == (NOW + 21 * HOUR,) * 2
    assert flaws(made) == []
    again = fire(made.change.job, (), NOW + 21 * HOUR, CHANCE)
    assert [live.due_at for live in again.add] == [NOW - HOUR]


def test_a_later_first_time_is_kept_as_the_start_of_the_schedule():
    made = adopted(next_at=NOW + 5 * HOUR)
    assert made.change.job.policies.start_at == NOW + 5 * HOUR
    assert adopted(next_at=NOW + MINUTE).change.job.policies.start_at is None


def test_what_runs_after_the_adoption_counts_on():
    made = adopted(counted={DONE: 7}, next_at=NOW, runs=[a_run(1, number=7)])
    fired = fire(made.change.job, (), NOW, CHANCE)
    (live,) = fired.add
    assert (live.number, live.execution_number) == (8, 8)
    from dataclasses import replace

    running = replace(live, worker_id=WORKER, started_at=NOW, version=1)
    settled = settle(fired.job, (running,), running, Completed(), NOW + SECOND, CHANCE)
    assert settled.job.facts.completed == 8


instants = some.integers(-40 * 24 * 60, 3 * 24 * 60).map(lambda minutes: NOW + minutes * MINUTE)
past = some.integers(-60 * 24 * 60, -1).map(lambda minutes: NOW + minutes * MINUTE)
runs = some.builds(
    PastRun,
    started_at=past,
    finished_at=past,
    outcome=some.sampled_from(OutcomeKind),
    attempt=some.integers(0, 4),
    execution_number=some.none() | some.integers(1, 30),
)
states = some.builds(
    FormerState,
    created_at=some.none() | past,
    next_at=some.none() | instants,
    last_at=some.none() | past,
    paused_at=some.none() | past,
    cancelled_at=some.sampled_from([None, None, None, NOW - DAY]),
    ended_at=some.sampled_from([None, None, None, NOW - DAY]),
    ended_as=some.none() | some.sampled_from(Ending),
    counted=some.dictionaries(some.sampled_from(OutcomeKind), some.integers(0, 50)),
    repeats_done=some.integers(0, 20),
    failures=some.integers(0, 5),
    period_start=some.none() | past,
    period_failures=some.integers(0, 6),
    runs=some.lists(runs, max_size=8),
)
definitions = some.sampled_from(
    [
        a_definition(every=HOUR),
        a_definition(every=MINUTE, catch_up=CatchUp.ALL),
        a_definition(every=DAY, max_retries=5, retry_reset_period=DAY, when_exhausted=WhenExhausted.WAIT_RESET),
        a_definition(every=HOUR, fixed_delay=True),
        a_definition(cron="*/7 3-9 * * mon-fri"),
        a_definition(at=NOW - HOUR, max_retries=0),
        a_definition(at=NOW + HOUR),
        a_definition(manual=True),
    ]
)


@given(state=states, definition=definitions)
def test_the_auditor_finds_nothing_wrong_with_an_adopted_job(state, definition):
    made = adopt(JOB, definition, state, NOW, CHANCE)
    assert flaws(made) == []
    job: Job = made.change.job
    if job.facts.next_due_at is not None and job.facts.next_due_at <= NOW:
        fired = fire(job, made.change.add, NOW, CHANCE)
        assert fired.job.facts.last_number <= fired.job.facts.last_execution_number
