"""Random lives by the thousand: every schedule and policy, every command, wrong clocks and retention.

A life is a pure function of its seed, some 30 ms long: many more fit into an hour than hypothesis could draw.
"""

import random
from contextlib import suppress
from datetime import time, timedelta

from ostinato.core.audit import AuditFlaw, Past, Pruned, SetBack, audit
from ostinato.core.errors import Conflict, NotFound
from ostinato.core.outcome import Cancelled, Completed, Deferred, Error, Failed, Interrupted, Lost, TimedOut
from ostinato.core.policy import Backoff, CatchUp, FirstRun, OnLost, Overlap, WhenExhausted
from ostinato.core.schedule import Cron, Every, Manual, Once
from ostinato.core.times import Window
from tests.build import AHEAD, DAY, HOUR, MINUTE, NOW, SECOND, WORKER, a_definition
from tests.core.life import Life

INSTANT = timedelta(microseconds=1)
NO = Error("ValueError", "no")
PERIODS = (SECOND, 7 * SECOND, MINUTE, HOUR, DAY)
CRONS = ("*/5 * * * *", "0 9 * * *", "30 2 * * mon", "*/7 2-3 * * *")
ZONES = ("UTC", "Europe/Paris", "Australia/Lord_Howe")
NIGHT, NOON = Window(start=time(22), end=time(6)), Window(start=time(11, 30), end=time(12, 30))
POLICY = {
    "first_run": tuple(FirstRun),
    "start_at": (None, None, None, NOW - 90 * MINUTE, NOW, NOW + 90 * MINUTE),
    "end_at": (None, None, None, NOW + 3 * HOUR, NOW + 3 * DAY),
    "fixed_delay": (False, False, False, True),
    "total_repeats": (0, 0, 1, 3),
    "window": (None, None, None, NIGHT, NOON),
    "jitter": (0 * SECOND, 0 * SECOND, 30 * SECOND),
    "catch_up": tuple(CatchUp),
    "catch_up_limit": (1, 3, 100),
    "catch_up_within": (None, None, 10 * MINUTE),
    "overlap": tuple(Overlap),
    "max_overlap": (1, 2, 3),
    "max_retries": (0, 1, 3),
    "backoff": (Backoff(), Backoff(base=SECOND, spread=0.5)),
    "retry_reset_period": (None, None, HOUR),
    "when_exhausted": tuple(WhenExhausted),
    "on_lost": (OnLost.RETRY, OnLost.RETRY, OnLost.FAIL),
}
OUTCOMES = (
    Completed(), Completed(), Completed(), Failed(NO), Failed(NO), Failed(NO, retry_in=MINUTE), Failed(NO, final=True),
    TimedOut(MINUTE), Lost(), Interrupted(), Deferred(NOW + HOUR), Cancelled("me"),
)  # fmt: skip
WHILES = (INSTANT, SECOND, 59 * SECOND, 10 * MINUTE, HOUR, 25 * HOUR)
COMMANDS = (
    "pause",
    "pause",
    "resume",
    "resume",
    "resume",
    "retry",
    "retry",
    "restart",
    "restart",
    "run",
    "run",
    "run_with",
    "cancel",
)
STEPS = {
    "time_passes": 5, "next_time_comes": 8, "retry_comes": 3, "nobody_is_there": 3, "run_ends": 10, "run_starts": 4,
    "running_ends": 8, "asked": 6, "edited": 2, "stopped": 1, "released": 1, "clock_is_set": 1, "pruned": 1,
}  # fmt: skip
CALM = STEPS | {"asked": 1, "edited": 0.3, "next_time_comes": 20, "run_ends": 20}


class RandomLife:
    """One job, and everything that happens to it by the dice of a seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.wrong_clock = self.dice.random() < 0.3
        self.steps = self.dice.choice((STEPS, CALM))
        self.set_back: list[SetBack] = []
        self.pruned = Pruned()
        self.story: list[str] = []
        definition = a_definition(schedule=self._schedule(), **self._policies())
        self.life = Life(definition, seed=seed % 100, bounded=seed % 2 == 0)

    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            (name,) = self.dice.choices(list(self.steps), self.steps.values())
            self.life.advance(INSTANT)  # a clock never stands still
            self.story.append(f"{self.life.now}  {name}")
            getattr(self, f"_{name}")()

    def flaws(self) -> list[AuditFlaw]:
        life = self.life
        if life.facts.deleted_at is not None:
            return []
        past = Past(events=life.events, pruned=self.pruned, set_back=self.set_back, workers=frozenset({WORKER}))
        return audit(life.job, life.rows, life.executions, life.skips, past, life.now)

    # -- what moves by itself

    def _time_passes(self) -> None:
        by = self.dice.choice(WHILES)
        self._turn(by)

    def _next_time_comes(self) -> None:
        due = self.life.facts.next_due_at
        if due is not None:
            early = self.dice.choice((0 * SECOND, 0 * SECOND, AHEAD / 2))
            self.life.turn(max(due - self.life.now - early, INSTANT), ahead=AHEAD)

    def _retry_comes(self) -> None:
        times = [live.run_at for live in self.life.rows if not live.running]
        if times:
            self.life.turn(max(min(times) - self.life.now, INSTANT))

    def _nobody_is_there(self) -> None:
        self.life.advance(self.dice.choice(WHILES))

    def _run_ends(self) -> None:
        if self.life.startable:
            live = self.life.claim()
            self._turn(self.dice.choice((INSTANT, SECOND, SECOND, HOUR)))
            self.life.settle(self.dice.choice(OUTCOMES), live)

    def _run_starts(self) -> None:
        if self.life.startable:
            self.life.claim()

    def _running_ends(self) -> None:
        if self.life.running:
            self.life.settle(self.dice.choice(OUTCOMES), self.dice.choice(self.life.running))

    def _clock_is_set(self) -> None:
        if self.wrong_clock:
            before = self.life.now
            self.life.now += self.dice.randint(-40, 40) * self.dice.choice((MINUTE, HOUR))
            self.life.now = max(self.life.now, NOW - 2 * DAY)
            if self.life.now < before:
                self.set_back.append(SetBack(self.life.now, before))
                self.life.rewind()

    def _pruned(self) -> None:
        """Retention takes the oldest history."""
        life = self.life
        if len(life.executions) < 8 or self.dice.random() < 0.5:
            return
        life.executions.sort(key=lambda each: (each.number, each.attempt))
        gone, life.executions = life.executions[:3], life.executions[3:]
        until = max(each.due_at for each in gone)
        old = [skip for skip in life.skips if skip.last_due_at < until]
        life.skips = [skip for skip in life.skips if skip.last_due_at >= until]
        counts = dict(self.pruned.counts)
        for each in gone:
            counts[each.outcome] = counts.get(each.outcome, 0) + 1
        counts["skipped"] = counts.get("skipped", 0) + sum(skip.count for skip in old)
        number = max(self.pruned.number, *(each.number for each in gone))
        self.pruned = Pruned(counts, max(self.pruned.until, until), number)

    # -- what people do

    def _asked(self) -> None:
        command = self.dice.choice(COMMANDS)
        self.story[-1] += f" {command}"
        self._try(*(("run", '{"x": 1}') if command == "run_with" else (command,)))

    def _edited(self) -> None:
        changed = {name: value for name, value in self._policies().items() if self.dice.random() < 0.15}
        if self.dice.random() < 0.5:
            changed["schedule"] = self._schedule()
        self.story[-1] += f" {changed}"
        self._try("edit", **changed)

    def _stopped(self) -> None:
        rows = [live for live in self.life.rows if live.due_at <= self.life.now]
        if rows:
            self._try("cancel_execution", self.dice.choice(rows), self.dice.random() < 0.5)

    def _released(self) -> None:
        if self.life.running:
            self.life.release(self.life.running[0])

    # -- within

    def _try(self, command: str, *args: object, **changed: object) -> None:
        with suppress(Conflict, NotFound):
            getattr(self.life, command)(*args, **changed)

    def _turn(self, by: timedelta) -> None:
        self.life.turn(min(by, MINUTE) if self._is_frequent() else by)

    def _is_frequent(self) -> bool:
        schedule = self.life.job.schedule
        return isinstance(schedule, Every) and schedule.period < MINUTE

    def _schedule(self):
        match self.dice.choices(("every", "cron", "once", "manual"), (6, 4, 2, 1))[0]:
            case "every":
                return Every(self.dice.choice(PERIODS[3:] if self.wrong_clock else PERIODS))
            case "cron":
                return Cron(self.dice.choice(CRONS), self.dice.choice(ZONES))
            case "once":
                return Once(NOW + self.dice.choice((-HOUR, 0 * HOUR, MINUTE, DAY)) + 333 * INSTANT)
            case _:
                return Manual()

    def _policies(self) -> dict:
        return {name: self.dice.choice(choices) for name, choices in POLICY.items()}
