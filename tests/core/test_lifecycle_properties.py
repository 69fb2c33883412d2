"""Whatever happens to a job, its records add up: random lives, checked after each step."""

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import time
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ostinato.core.errors import Conflict, NotFound
from ostinato.core.lifecycle import course, timeline
from ostinato.core.lifecycle.draft import Draft
from ostinato.core.model import (
    MAX_LOSSES,
    WAITING_PLACE,
    Asked,
    Ending,
    Result,
    Status,
    WaitsFor,
)
from ostinato.core.outcome import (
    Cancelled,
    Completed,
    Deferred,
    Error,
    Failed,
    Interrupted,
    Lost,
    TimedOut,
)
from ostinato.core.policy import CatchUp, FirstRun, OnLost, Overlap, WhenExhausted
from ostinato.core.retry import Backoff
from ostinato.core.schedule import Cron, Every, Manual, Once, is_recurring
from ostinato.core.window import Window
from tests.build import DAY, HOUR, MINUTE, NOW, SECOND, a_definition
from tests.core.life import AHEAD, Life

INSTANT = timeline.INSTANT

# -- the checker: what is wrong with a life, in words


def faults(life: Life) -> list[str]:
    """Every way in which this life breaks a guarantee."""
    return [
        fault
        for look in (
            slots, identities, counters, budgets, leftovers, next_times, silence, hands_off, transitions, schema
        )
        for fault in look(life)
    ]  # fmt: skip


def slots(life):
    """G1: one occurrence in each slot, no more slots than allowed, one waiting place that is never forgotten."""
    taken = Counter(live.slot for live in life.rows)
    most = max(n for stretch in life.definitions for n in [_slots(stretch)])
    if any(count > 1 for count in taken.values()):
        yield f"two occurrences in one slot: {taken}"
    if any(not WAITING_PLACE <= slot < most for slot in taken):
        yield f"a slot that does not exist: {taken}"
    if taken[WAITING_PLACE] and len(taken) == 1:
        yield "somebody waits for nobody"


def identities(life):
    """G4: an attempt at an occurrence exists once, and so does its number as an execution."""
    rows = [*life.rows, *life.executions]
    if len({(row.number, row.attempt) for row in rows}) != len(rows):
        yield "an attempt that exists twice"
    if len({row.execution_number for row in rows}) != len(rows):
        yield "an execution number that exists twice"
    if len({live.number for live in life.rows}) != len(life.rows):
        yield "two live attempts at one occurrence"
    if any(row.number > life.facts.last_number for row in rows):
        yield "a number that was never given"


def counters(life):
    """G9: counters equal history."""
    by_result = Counter(each.result for each in life.executions)
    for result in Result:
        if getattr(life.facts, result.value) != by_result[result]:
            yield f"{result} is counted {getattr(life.facts, result.value)}, but there are {by_result[result]}"
    if life.facts.skipped != sum(skip.count for skip in life.skips):
        yield f"skipped is {life.facts.skipped}, but the skips say {sum(skip.count for skip in life.skips)}"


def budgets(life):
    """G7: no more failures than the first try and its retries, no more than three losses."""
    failures = Counter(e.number for e in life.executions if e.result in (Result.FAILED, Result.TIMED_OUT))
    losses = Counter(e.number for e in life.executions if e.result is Result.LOST)
    most = 1 + max(definition.policies.max_retries for definition in life.definitions)
    for number in failures.keys() - life.retried:
        if failures[number] > most:
            yield f"occurrence {number} failed {failures[number]} times"
    for number in losses.keys() - life.retried:
        if losses[number] > MAX_LOSSES:
            yield f"occurrence {number} was lost {losses[number]} times"


def leftovers(life):
    """G4: recomputing the due times from the schedule leaves nothing over, and nothing has two records."""
    records = _records(life)
    for earlier, later in pairwise(records):
        if later[0] <= earlier[1]:
            yield f"two records for one due time: {earlier} and {later}"
    dealt = (
        life.facts.anchor
        if life.facts.last_due_at is None
        else max(life.facts.anchor, life.facts.last_due_at)
    )
    for stretch in life.stretches:
        if not stretch.has_grid:
            continue
        due = stretch.count(stretch.since, stretch.until or dealt) + stretch.due_at_once
        has = 0
        for first, last, count in records:
            if not _within(stretch, first):
                continue
            has += count
            if first != stretch.since and count != stretch.count(first - INSTANT, last):
                yield f"{count} recorded, {stretch.count(first - INSTANT, last)} due from {first} to {last}"
        if has != due:
            yield f"{due} due since {stretch.since}, {has} recorded"


def next_times(life):
    """`next_due_at` is empty where nothing may be fired, and never jumps over a due time."""
    facts, definition = life.facts, life.job.definition
    stopped = facts.paused_at or facts.cancelled_at or facts.ended_as or facts.deleted_at
    if facts.next_due_at is None:
        return
    if stopped:
        yield "a next due time of a job that must not fire"
    if is_recurring(definition.schedule) and facts.reset_at is None and not definition.policies.fixed_delay:
        dealt = facts.anchor if facts.last_due_at is None else max(facts.anchor, facts.last_due_at)
        if timeline.count_due(definition, facts, dealt, facts.next_due_at - INSTANT):
            yield f"jumps from {dealt} to {facts.next_due_at}"


def silence(life):
    """A job that is open and has nothing live has a next time; one with something live may wait for it."""
    facts, policies, schedule = life.facts, life.job.policies, life.job.schedule
    stopped = facts.paused_at or facts.cancelled_at or facts.ended_at or facts.deleted_at
    if stopped or facts.next_due_at is not None or isinstance(schedule, Manual):
        return
    if not life.rows:
        yield "stuck: nothing is live and nothing comes next"
    catches_up = any(each.policies.catch_up is CatchUp.ALL for each in life.definitions)
    may_wait = policies.fixed_delay or catches_up or facts.reset_at or facts.ended_as
    if is_recurring(schedule) and not may_wait:
        dealt = facts.anchor if facts.last_due_at is None else max(facts.anchor, facts.last_due_at)
        if timeline.next_due(life.job.definition, facts, dealt) is not None:
            yield "nothing comes next, though something is due"


def hands_off(life):
    """G8: of a job that is paused, cancelled, ended or deleted nothing may start but what a person asked for."""
    facts = life.facts
    for live in life.rows:
        if live.running:
            continue
        asked = live.asked is Asked.HAND or live.id in life.started_by_hand
        if facts.cancelled_at or facts.deleted_at or facts.ended_at:
            yield f"{live.number} waits, though its job is over"
        elif facts.ended_as is not None and not asked:
            yield f"{live.number} waits, though its schedule is over"
        elif facts.paused_at is not None and live.waits_for is not WaitsFor.RESUME and not asked:
            yield f"{live.number} may start, though its job is paused"


MAY_BECOME = {
    Status.PENDING: "scheduled queued running paused completed cancelled",
    Status.SCHEDULED: "queued pending running paused completed cancelled",
    Status.QUEUED: "running scheduled paused cancelled",
    Status.RUNNING: "completed failed scheduled queued pending paused cancelled",
    Status.PAUSED: "scheduled queued pending running completed failed cancelled",
    Status.COMPLETED: "scheduled pending",
    Status.FAILED: "scheduled pending",
    Status.CANCELLED: "",
}


def transitions(life):
    """The table of DESIGN §2; one step may take two of its rows, through `scheduled`."""
    for before, after, facts in life.statuses:
        direct = before is after or after.value in MAY_BECOME[before].split()
        through = "scheduled" in MAY_BECOME[before].split() and after in MAY_BECOME[Status.SCHEDULED].split()
        back = after is Status.FAILED and facts.ended_as is Ending.FAILED  # run by hand once more
        if not (direct or through or back):
            yield f"{before} became {after}"


def schema(life):
    """What the database checks."""
    facts = life.facts
    if facts.ended_at is not None and facts.ended_as is None:
        yield "ended, but how?"
    if facts.last_execution_number < facts.last_number:
        yield "more occurrences than executions"
    for live in life.rows:
        if live.worker_id is not None and (live.waits_for is not None or live.started_at is None):
            yield "runs and waits"
        if (live.slot == WAITING_PLACE) != (live.waits_for is WaitsFor.TURN) and not facts.paused_at:
            yield f"slot {live.slot} waits for {live.waits_for}"
        if live.asked is Asked.SCHEDULE and live.run_at < live.due_at:
            yield "may start before it is due"
    if any(skip.count < 1 or skip.first_due_at > skip.last_due_at for skip in life.skips):
        yield "a skip of nothing"


def _slots(definition):
    policies = definition.policies
    return policies.max_overlap if policies.overlap is Overlap.ALLOW else 1


def _records(life):
    """(first, last, count) of every skip, and of every occurrence, of the due times that are on a grid."""
    grid = [stretch for stretch in life.stretches if stretch.has_grid]
    single = {each.schedule.at for each in life.definitions if isinstance(each.schedule, Once)}
    rows = {row.number: row.due_at for row in [*life.executions, *life.rows] if row.asked is Asked.SCHEDULE}
    records = [(due, due, 1) for due in rows.values()]
    records += [(skip.first_due_at, skip.last_due_at, skip.count) for skip in life.skips]
    return sorted(
        record
        for record in records
        if record[0] not in single and any(_within(stretch, record[0]) for stretch in grid)
    )


def _within(stretch, due):
    at_once = stretch.due_at_once and due == stretch.since
    return at_once or (stretch.since < due and (stretch.until is None or due <= stretch.until))


# -- random lives

PERIODS = [SECOND, 7 * SECOND, MINUTE, HOUR, DAY]
SCHEDULES = st.one_of(
    st.sampled_from(PERIODS).map(Every),
    st.sampled_from(["*/5 * * * *", "0 9 * * *", "30 2 * * mon"]).map(Cron),
    st.sampled_from([-HOUR, 0 * HOUR, MINUTE, DAY]).map(lambda delta: Once(NOW + delta + 333 * INSTANT)),
    st.just(Manual()),
)
NIGHT = Window(start=time(22), end=time(6))
NOON = Window(start=time(11, 30), end=time(12, 30))
POLICY = {
    "first_run": st.sampled_from(FirstRun),
    "start_at": st.sampled_from([None, None, NOW - 90 * MINUTE, NOW, NOW + 90 * MINUTE]),
    "end_at": st.sampled_from([None, None, NOW + 3 * HOUR, NOW + 3 * DAY]),
    "fixed_delay": st.sampled_from([False, False, True]),
    "total_repeats": st.sampled_from([0, 0, 1, 3]),
    "window": st.sampled_from([None, None, NIGHT, NOON]),
    "jitter": st.sampled_from([0 * SECOND, 0 * SECOND, 30 * SECOND]),
    "catch_up": st.sampled_from(CatchUp),
    "catch_up_limit": st.sampled_from([1, 3, 100]),
    "catch_up_within": st.sampled_from([None, None, 10 * MINUTE]),
    "overlap": st.sampled_from(Overlap),
    "max_overlap": st.sampled_from([1, 2, 3]),
    "max_retries": st.sampled_from([0, 1, 3]),
    "backoff": st.sampled_from([Backoff(), Backoff(base=SECOND, spread=0.5)]),
    "retry_reset_period": st.sampled_from([None, None, HOUR]),
    "when_exhausted": st.sampled_from(WhenExhausted),
    "on_lost": st.sampled_from([OnLost.RETRY, OnLost.RETRY, OnLost.FAIL]),
}
NO = Error("ValueError", "no")
OUTCOMES = st.sampled_from(
    [
        Completed(), Completed(), Failed(NO), Failed(NO), Failed(NO), Failed(NO, retry_in=MINUTE),
        Failed(NO, final=True), TimedOut(MINUTE), Lost(), Lost(), Interrupted(), Deferred(NOW + HOUR), Cancelled("me"),
    ]
)  # fmt: skip
WHILES = st.sampled_from([INSTANT, SECOND, 59 * SECOND, 10 * MINUTE, HOUR, 25 * HOUR, 40 * DAY])


CHARACTERS = st.sampled_from(
    [
        {},
        {"max_retries": 1, "when_exhausted": WhenExhausted.FAIL, "start_at": None, "end_at": None},
        {"retry_reset_period": HOUR, "when_exhausted": WhenExhausted.WAIT_RESET, "window": None},
        {"catch_up": CatchUp.ALL, "catch_up_limit": 3, "window": None, "fixed_delay": False},
        {"overlap": Overlap.ALLOW, "max_overlap": 3, "fixed_delay": False, "total_repeats": 3},
        {"overlap": Overlap.CANCEL_RUNNING, "fixed_delay": False},
    ]
)
COMMANDS = "pause pause resume resume retry retry restart run run run_with cancel delete".split()


class Lives(RuleBasedStateMachine):
    """A dispatcher that is sometimes away, a worker that is sometimes unlucky, and people who press every button."""

    @initialize(
        schedule=SCHEDULES,
        policies=st.fixed_dictionaries(POLICY),
        character=CHARACTERS,
        seed=st.integers(0, 99),
    )
    def born(self, schedule, policies, character, seed):
        self.life = Life(a_definition(schedule=schedule, **policies | character), seed=seed)

    # -- what moves by itself

    @rule(by=WHILES)
    def time_passes(self, by):
        self.life.turn(by)

    @precondition(lambda self: self.life.facts.next_due_at is not None)
    @rule(early=st.sampled_from([0 * SECOND, 0 * SECOND, AHEAD / 2]))
    def the_next_time_comes(self, early):
        until = self.life.facts.next_due_at - self.life.now - early
        self.life.turn(max(until, INSTANT), ahead=AHEAD)

    @precondition(lambda self: any(live.waits_for is WaitsFor.TIME for live in self.life.rows))
    @rule()
    def a_waiting_attempt_may_start(self):
        soonest = min(live.run_at for live in self.life.rows if live.waits_for is WaitsFor.TIME)
        self.life.turn(max(soonest - self.life.now, INSTANT))

    @rule(by=WHILES)
    def nobody_is_there(self, by):
        self.life.advance(by)

    @precondition(lambda self: self.life.startable)
    @rule(outcome=OUTCOMES, took=st.sampled_from([INSTANT, SECOND, HOUR]))
    def a_run_ends(self, outcome, took):
        live = self.life.claim()
        self.life.turn(took)
        self.life.settle(outcome, live)

    @precondition(lambda self: self.life.startable)
    @rule(outcome=st.sampled_from([Failed(NO), Lost()]))
    def it_goes_wrong_again_and_again(self, outcome):
        number = self.life.claim().number
        while rows := [live for live in self.life.rows if live.number == number]:
            self.life.now = max(self.life.now, rows[0].run_at)
            if not rows[0].running and rows[0] not in self.life.startable:
                break
            self.life.settle(outcome, rows[0] if rows[0].running else self.life.start(rows[0]))

    @precondition(lambda self: self.life.startable)
    @rule()
    def a_run_starts(self):
        self.life.claim()

    @precondition(lambda self: self.life.running)
    @rule(outcome=OUTCOMES, which=st.integers(0, 9))
    def a_run_in_progress_ends(self, outcome, which):
        running = self.life.running
        self.life.settle(outcome, running[which % len(running)])

    # -- what people do, whether it is allowed or not

    @rule(command=st.sampled_from(COMMANDS))
    def a_person_asks(self, command):
        self.life.advance(INSTANT)  # a clock never stands still
        if command == "run_with":
            self.try_to("run", '{"x": 1}')
        else:
            self.try_to(command)

    @rule(schedule=st.none() | SCHEDULES, changed=st.fixed_dictionaries({}, optional=POLICY))
    def a_person_edits(self, schedule, changed):
        self.life.advance(INSTANT)
        changed.pop("end_at", None)
        if schedule is not None:
            changed["schedule"] = schedule
        self.try_to("edit", **changed)

    @precondition(lambda self: self.life.rows)
    @rule(which=st.integers(0, 9), force=st.booleans())
    def a_person_stops_an_execution(self, which, force):
        rows = [live for live in self.life.rows if live.due_at <= self.life.now]
        if rows:
            self.try_to("cancel_execution", rows[which % len(rows)], force)

    @precondition(lambda self: self.life.running)
    @rule()
    def a_person_releases_an_execution(self):
        self.life.release(self.life.running[0])

    def try_to(self, command, *args, **changed):
        with suppress(Conflict, NotFound):  # and then nothing has changed
            getattr(self.life, command)(*args, **changed)

    @invariant()
    def nothing_is_wrong(self):
        if hasattr(self, "life"):
            assert faults(self.life) == []


TestLives = Lives.TestCase
TestLives.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


class WrongClocks(RuleBasedStateMachine):
    """A clock that is set forward and back: nothing runs twice, nothing is stuck."""

    @initialize(
        schedule=st.sampled_from([Every(HOUR), Cron("0 * * * *")]), policies=st.fixed_dictionaries(POLICY)
    )
    def born(self, schedule, policies):
        bounds = {"start_at": None, "end_at": None, "total_repeats": 0}
        self.life = Life(a_definition(schedule=schedule, **policies | bounds))

    @rule(hours=st.integers(-100, 100), minutes=st.integers(0, 59))
    def the_clock_is_set(self, hours, minutes):
        self.life.now = max(NOW, self.life.now + hours * HOUR + minutes * MINUTE)
        self.life.rewind()

    @rule(by=st.sampled_from([SECOND, 10 * MINUTE, HOUR, 5 * HOUR]))
    def time_passes(self, by):
        self.life.turn(by)

    @precondition(lambda self: self.life.startable)
    @rule(outcome=OUTCOMES)
    def a_run_ends(self, outcome):
        self.life.run_one(outcome)

    @invariant()
    def nothing_runs_twice(self):
        if hasattr(self, "life"):
            grid = not self.life.job.policies.fixed_delay
            rows = {
                e.number: e.due_at
                for e in [*self.life.executions, *self.life.rows]
                if e.asked is Asked.SCHEDULE
            }
            assert not grid or len(set(rows.values())) == len(rows)
            looks = (slots, identities, counters, budgets, hands_off, transitions)
            assert [fault for look in looks for fault in look(self.life)] == []

    @invariant()
    def the_next_time_is_near(self):
        """Once nothing is live any more, it comes within a period (or a budget's)."""
        if hasattr(self, "life") and not self.life.rows and self.life.facts.ended_at is None:
            self.life.rewind()
            assert self.life.facts.next_due_at - self.life.now <= HOUR


TestWrongClocks = WrongClocks.TestCase
TestWrongClocks.settings = settings(
    max_examples=50,
    stateful_step_count=20,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


# -- the checker itself: a rule that forgets something is found out


def an_eventful_life():
    """Absence, overlap, failure, loss, pause, edit, cancel: enough for every look of the checker."""
    life = Life(every=HOUR, overlap=Overlap.QUEUE_ONE, max_retries=1)
    life.turn(5 * HOUR)
    life.claim()
    life.turn(HOUR)
    life.turn(HOUR)
    yield life
    life.settle(Failed(NO))
    life.turn(MINUTE)
    life.run_one(Lost())
    life.run_one(Failed(NO))
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
    life.settle(Failed(NO), life.running[0])
    yield life
    life.resume()
    life.advance(HOUR)
    life.cancel()
    yield life


def test_the_checker_finds_nothing_wrong_with_an_eventful_life():
    assert [fault for life in an_eventful_life() for fault in faults(life)] == []


def forget_the_skip(self, reason, first, last, count, in_the_way=None):
    self.dealt_with(last)


def forget_to_count(self, live, result, **how):
    before = replace(self.facts)
    ended = END(self, live, result, **how)
    setattr(self.facts, result.value, getattr(before, result.value))
    return ended


def record_it_twice(self, reason, after, until):
    SKIP_BETWEEN(self, reason, after, until)
    SKIP_BETWEEN(self, reason, after, until)


def reuse_the_attempt(self, ended, run_at, slot, **carried):
    QUEUE_AGAIN(self, replace(ended, attempt=ended.attempt - 1), run_at, slot, **carried)


END, SKIP_BETWEEN, QUEUE_AGAIN = Draft.end, Draft.skip_between, Draft.queue_again


@pytest.mark.parametrize(
    ("where", "name", "mutant"),
    [
        (Draft, "skip", forget_the_skip),
        (Draft, "end", forget_to_count),
        (Draft, "skip_between", record_it_twice),
        (Draft, "queue_again", reuse_the_attempt),
        (Draft, "held_by_pause", lambda self, row: False),
        (Draft, "free_slot", lambda self: 0),
        (course, "close_gap", lambda draft: None),
        (course, "skip_gap", lambda draft, reason: None),
        (course, "let_in", lambda draft: None),
        (course, "name_next", lambda draft, after: None),
    ],
)
def test_the_checker_finds_a_rule_that_forgets_something(monkeypatch, where, name, mutant):
    monkeypatch.setattr(where, name, mutant)
    try:
        found = [fault for life in an_eventful_life() for fault in faults(life)]
    except (AssertionError, IndexError, ValueError) as stopped:  # the life could not go on like that
        found = [str(stopped)]
    assert found
