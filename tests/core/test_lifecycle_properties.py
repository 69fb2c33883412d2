"""Whatever happens to a job, its records add up: random lives, checked after each step."""

from contextlib import suppress
from datetime import time

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ostinato.core.errors import Conflict, NotFound
from ostinato.core.model import AskedBy, WaitsFor
from ostinato.core.outcome import Cancelled, Completed, Deferred, Error, Failed, Interrupted, Lost, TimedOut
from ostinato.core.policy import Backoff, CatchUp, FirstRun, OnLost, Overlap, WhenExhausted
from ostinato.core.schedule import Cron, Every, Manual, Once
from ostinato.core.times import Window
from tests.build import AHEAD, DAY, HOUR, MINUTE, NOW, SECOND, a_definition
from tests.core.faults import INSTANT, budgets, counters, faults, hands_off, identities, slots, transitions
from tests.core.life import Life

NO = Error("ValueError", "no")
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
    """A dispatcher that is sometimes away, a worker that sometimes fails, and users who try every command."""

    @initialize(
        schedule=SCHEDULES,
        policies=st.fixed_dictionaries(POLICY),
        character=CHARACTERS,
        seed=st.integers(0, 99),
        bounded=st.booleans(),
    )
    def born(self, schedule, policies, character, seed, bounded):
        self.life = Life(a_definition(schedule=schedule, **policies | character), seed=seed, bounded=bounded)

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

    @initialize(schedule=st.sampled_from([Every(HOUR), Cron("0 * * * *")]), policies=st.fixed_dictionaries(POLICY))
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
            rows = {e.number: e.due_at for e in [*self.life.executions, *self.life.rows] if e.asked is AskedBy.SCHEDULE}
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
