"""Random jobs: every schedule and every policy, in sizes that fit the pace of a world."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta

from ostinato.core.model import Definition
from ostinato.core.policy import Backoff, BackoffKind, CatchUp, FirstRun, OnLost, Overlap, Policies, WhenExhausted
from ostinato.core.schedule import Cron, Every, Manual, Once, Schedule
from ostinato.core.times import Window

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)

BEGINNINGS = (
    datetime(2026, 11, 16, 12, tzinfo=UTC),
    datetime(2026, 3, 28, 22, tzinfo=UTC),  # Europe goes to summer time
    datetime(2026, 10, 24, 22, tzinfo=UTC),  # and back
    datetime(2028, 2, 28, 23, 59, 30, tzinfo=UTC),
)
QUEUES = ("default", "default", "bulk")
ZONES = ("UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe")


@dataclass(frozen=True)
class Pace:
    """How fast things go in a world."""

    steps: tuple[timedelta, ...]
    periods: tuple[timedelta, ...]
    crons: tuple[str, ...]


PACES = (
    Pace(
        steps=(SECOND / 4, SECOND, 3 * SECOND, 7 * SECOND, 20 * SECOND),
        periods=(2 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND, MINUTE),
        crons=("* * * * *", "*/2 * * * *"),
    ),
    Pace(
        steps=(5 * SECOND, 30 * SECOND, 2 * MINUTE, 10 * MINUTE),
        periods=(30 * SECOND, MINUTE, 7 * MINUTE, HOUR),
        crons=("*/5 * * * *", "0 * * * *", "*/7 2-3 * * *", "30 2 * * *"),
    ),
    Pace(
        steps=(30 * SECOND, 20 * MINUTE, 3 * HOUR, 12 * HOUR),
        periods=(10 * MINUTE, HOUR, 6 * HOUR, 24 * HOUR, 36 * HOUR),
        crons=("0 * * * *", "30 2 * * *", "15 */4 * * *", "0 9 * * mon-fri", "@daily"),
    ),
)


class Dice:
    """What the dice say."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def maybe(self, share: float) -> bool:
        return self.random.random() < share

    def one(self, *choices):
        return self.random.choice(choices)

    def weighted(self, weights: dict):
        return self.random.choices(list(weights), weights.values())[0]

    # -- jobs

    def definition(self, now: datetime, pace: Pace, task: str, key: str | None) -> Definition:
        schedule = self.schedule(now, pace)
        return Definition(
            task=task, schedule=schedule, policies=self.policies(now, pace, schedule), key=key,
            queue=self.one(*QUEUES), priority=self.one(1, 5, 5, 10), args='{"n": 1}',
        )  # fmt: skip

    def schedule(self, now: datetime, pace: Pace) -> Schedule:
        match self.weighted({"every": 6, "cron": 3, "once": 2, "manual": 1}):
            case "every":
                return Every(self.one(*pace.periods))
            case "cron":
                return Cron(self.one(*pace.crons), self.one(*ZONES))
            case "once":
                return Once(now + self.one(-1, 0, 1, 3) * self.one(*pace.steps))
            case _:
                return Manual()

    def policies(self, now: datetime, pace: Pace, schedule: Schedule) -> Policies:
        period = schedule.period if isinstance(schedule, Every) else max(pace.periods[0], MINUTE)
        given: dict = {
            "max_retries": self.one(0, 1, 3),
            "backoff": self.one(
                Backoff(base=period / 4, cap=4 * period),
                Backoff(base=SECOND, cap=MINUTE),
                Backoff(kind=BackoffKind.FIXED, base=period),
                Backoff(kind=BackoffKind.STEPS, steps=(SECOND, period)),
                Backoff(kind=BackoffKind.LINEAR, base=2 * SECOND, cap=HOUR),
            ),
            "catch_up": self.one(*CatchUp),
            "overlap": self.one(*Overlap),
            "max_overlap": self.one(2, 3),
            "when_exhausted": self.one(*WhenExhausted),
            "on_lost": self.one(OnLost.RETRY, OnLost.RETRY, OnLost.FAIL),
            "first_run": self.one(FirstRun.NEXT, FirstRun.NEXT, FirstRun.NOW),
        }
        if given["overlap"] is not Overlap.ALLOW:
            del given["max_overlap"]
        for share, name, value in (
            (0.15, "fixed_delay", True),
            (0.2, "total_repeats", self.one(1, 3, 5)),
            (0.15, "start_at", now + self.one(-5, -1, 0, 2) * period),
            (0.15, "end_at", now + self.one(1, 5, 20) * period),
            (0.15, "window", self.window()),
            (0.15, "jitter", period / 3),
            (0.3, "late_after", self.one(timedelta(0), period / 2, 3 * period)),
            (0.3, "catch_up_limit", self.one(1, 3)),
            (0.2, "catch_up_within", self.one(2, 10) * period),
            (0.3, "retry_reset_period", self.one(2, 10) * period),
            (0.3, "timeout", self.one(5 * SECOND, period)),
        ):
            if self.maybe(share):
                given[name] = value
        return Policies(**given)

    def window(self) -> Window:
        start, end = self.random.sample([0, 2, 3, 9, 17, 22], 2)
        days = frozenset(self.random.sample(range(7), self.one(5, 7)))
        return Window(days=days, start=time(start), end=time(end, 30), timezone=self.one(*ZONES))

    def edited(self, definition: Definition, now: datetime, pace: Pace) -> Definition:
        match self.one("schedule", "policies", "queue", "priority", "end_at", "everything", "task"):
            case "schedule":
                return replace(definition, schedule=self.schedule(now, pace))
            case "policies":
                return replace(definition, policies=self.policies(now, pace, definition.schedule))
            case "queue":
                return replace(definition, queue=self.one(*QUEUES))
            case "priority":
                return replace(definition, priority=self.one(1, 9))
            case "end_at":
                end = self.one(None, now + self.one(-1, 1, 5) * self.one(*pace.periods))
                return replace(definition, policies=replace(definition.policies, end_at=end))
            case "task":
                return replace(definition, task=self.one("work", "rare", "nobody"))
            case _:
                return self.definition(now, pace, definition.task, definition.key)
