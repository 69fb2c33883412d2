"""A job that goes out: the union of both vocabularies."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, ClassVar, Final, Literal, TypeVar
from uuid import UUID

from ostinato.core.lifecycle import backoff_of
from ostinato.core.model import Facts, Live, Status, WaitsFor
from ostinato.core.policy import (
    BACKOFF_WORDS,
    POLICY_WORDS,
    Backoff,
    BackoffKind,
    CatchUp,
    FirstRun,
    OnLost,
    Overlap,
    Policies,
    WhenExhausted,
)
from ostinato.core.read_models import LastRun
from ostinato.core.schedule import Cron, Every, Schedule, is_recurring, to_json
from ostinato.core.times import Window, format_duration
from ostinato.core.trace import shown
from ostinato.service.views import JobView
from ostinato.shapes.answers import JsonObject, described
from ostinato.shapes.openapi import worded

# -- Schedules in the format of seed 003: an interval of whole minutes, and the cron expression that it stores

UNITS: Final = {"minutes": "m", "hours": "h", "days": "d"}
TYPES: Final = {unit: name for name, unit in UNITS.items()}
ONE_UNIT: Final = re.compile(r"(\d+)([mhd])", re.ASCII)

AnySchedule = TypeVar("AnySchedule", bound=Schedule | None)
IntervalType = Literal["minutes", "hours", "days"]


def interval_of(schedule: Schedule) -> tuple[int, IntervalType] | None:
    """Return a schedule as `interval_minutes` and `interval_type`, if it is an interval of whole minutes."""
    if not isinstance(schedule, Every) or schedule.period % timedelta(minutes=1):
        return None
    written = ONE_UNIT.fullmatch(str(to_json(schedule)["every"]))
    if written is None:
        return _largest_unit(schedule.period)
    return int(written[1]), TYPES[written[2]]  # type: ignore[return-value]


def cron_of(schedule: Schedule) -> Cron | None:
    """Return the cron schedule, or the cron schedule that an interval stores for a rollback."""
    return schedule.kept if isinstance(schedule, Every) else schedule if isinstance(schedule, Cron) else None


def keeping(schedule: AnySchedule, kept: Cron | None) -> AnySchedule | Every:
    """Store a cron schedule in an interval, for a rollback."""
    if not isinstance(schedule, Every) or schedule.kept is not None:
        return schedule
    return replace(schedule, kept=kept)


def _largest_unit(period: timedelta) -> tuple[int, IntervalType]:
    if not period % timedelta(days=1):
        return period // timedelta(days=1), "days"
    if not period % timedelta(hours=1):
        return period // timedelta(hours=1), "hours"
    return period // timedelta(minutes=1), "minutes"


# -- A job that goes out: the union of both vocabularies

CACHED_ANSWERS: Final = 1024


class BackoffAnswer(JsonObject):
    """The delays between attempts."""

    __pydantic_config__: ClassVar = {"json_schema_extra": worded(BACKOFF_WORDS)}

    kind: BackoffKind
    base: str
    cap: str
    factor: float
    steps: list[str]
    jitter: float
    never_retry: list[str]

    @classmethod
    def of(cls, backoff: Backoff) -> "BackoffAnswer":
        return cls(
            kind=backoff.kind, base=format_duration(backoff.base), cap=format_duration(backoff.cap),
            factor=backoff.factor, steps=[format_duration(step) for step in backoff.steps], jitter=backoff.spread,
            never_retry=list(backoff.never_retry),
        )  # fmt: skip


class JobCounters(JsonObject):
    """Counters of a job; they go on though history is pruned."""

    occurrences: int
    executions: int
    completed: int
    failed: int
    timed_out: int
    cancelled: int
    lost: int
    skipped: int
    repeats_done: int

    @classmethod
    def of(cls, facts: Facts) -> "JobCounters":
        return cls(
            occurrences=facts.last_number, executions=facts.last_execution_number, completed=facts.completed,
            failed=facts.failed, timed_out=facts.timed_out, cancelled=facts.cancelled, lost=facts.lost,
            skipped=facts.skipped, repeats_done=facts.repeats_done,
        )  # fmt: skip


class JobAnswer(JsonObject):
    """A job: what people wrote, and what has become of it."""

    __pydantic_config__: ClassVar = {"json_schema_extra": worded(POLICY_WORDS)}

    id: UUID
    version: int
    app: str
    key: str | None
    name: str
    description: str
    owner: str
    task: str
    args: dict[str, Any]
    queue: str
    priority: int
    tags: list[str]
    metadata: dict[str, Any]

    status: Status
    is_paused: bool
    waits_for: WaitsFor | None
    reason: str | None = described("Why it is pending or queued, in a sentence.")
    stop: str | None = described("That its runs were asked to stop and still run, in a sentence.")
    next_run_at: datetime | None
    created_at: datetime
    updated_at: datetime
    paused_at: datetime | None
    cancelled_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    error_message: str | None
    current_retry_count: int
    lock_token: UUID | None
    lock_acquired_at: datetime | None
    counters: JobCounters

    source_id: str | None
    source_name: str | None
    url: str | None
    interval_minutes: int | None
    interval_type: IntervalType | None
    schedule_time: str | None
    schedule_enabled: bool
    retry_backoff_seconds: int

    schedule: dict[str, str | bool]
    schedule_description: str
    timezone: str | None
    first_run: FirstRun
    start_at: datetime | None
    end_at: datetime | None
    fixed_delay: bool
    total_repeats: int
    window: dict[str, str | list[str]] | None
    jitter: str
    catch_up: CatchUp
    late_after: str
    catch_up_limit: int
    catch_up_within: str | None
    overlap: Overlap
    max_overlap: int
    max_retries: int
    backoff: BackoffAnswer
    retry_reset_period: str | None
    when_exhausted: WhenExhausted
    on_lost: OnLost
    timeout: str | None
    keep_executions: int | None
    keep_days: int | None
    max_concurrency: int | None
    concurrency_key: str | None
    after: str | None
    rate_limit: str | None
    cpu_limit: str | None
    memory_limit_mb: int | None
    open_files_limit: int | None
    output_limit_mb: int | None
    run_args: list[str]

    @classmethod
    def of(cls, view: JobView, last: LastRun | None) -> "JobAnswer":
        """A job, and how its newest run ended."""
        definition = view.definition
        return cls(
            id=view.id, version=view.facts.version, app=definition.app, key=definition.key, name=definition.name,
            description=definition.description, owner=definition.owner, task=definition.task, args=view.args,
            queue=definition.queue, priority=definition.priority, tags=list(definition.tags),
            metadata=shown(definition.metadata),
            **_state(view), **_last(view.lives, last), **_source(view.args),
            schedule_description=view.when, **_schedule(definition.schedule), **_policies(_in_force(view)),
        )  # fmt: skip


class JobList(JsonObject):
    """A page of jobs."""

    jobs: list[JobAnswer]
    total: int
    limit: int
    offset: int
    cursor: str | None


def _state(view: JobView) -> dict[str, Any]:
    facts, running = view.facts, [live for live in view.lives if live.running]
    first = running[0] if running else None
    return {
        "status": view.status,
        "is_paused": facts.paused_at is not None,
        "waits_for": _waits_for(view.lives),
        "reason": view.reason,
        "stop": None if view.stop is None else view.stop.sentence,
        "next_run_at": view.next_run_at,
        "created_at": facts.created_at,
        "updated_at": facts.updated_at,
        "paused_at": facts.paused_at,
        "cancelled_at": facts.cancelled_at,
        "lock_token": None if first is None else first.id,
        "lock_acquired_at": None if first is None else first.started_at,
        "counters": JobCounters.of(facts),
    }


def _last(lives: Sequence[Live], last: LastRun | None) -> dict[str, Any]:
    """The run that is going on, else the newest that has ended."""
    started = next((live.started_at for live in lives if live.running), last.started_at if last else None)
    failed = last is not None and last.outcome.is_failure
    retries = [live.failures for live in lives] or [last.failures if last is not None and failed else 0]
    return {
        "started_at": started,
        "completed_at": None if last is None else last.finished_at,
        "error_message": last.error if last is not None and failed else None,
        "current_retry_count": max(retries),
    }


def _waits_for(lives: Sequence[Live]) -> WaitsFor | None:
    return next((live.waits_for for live in lives if live.waits_for is not None), None)


def _source(args: dict[str, Any]) -> dict[str, Any]:
    given = {name: args.get(name) for name in ("source_id", "source_name", "url")}
    return {name: value if isinstance(value, str) else None for name, value in given.items()}


def _schedule(schedule: Schedule) -> dict[str, Any]:
    interval, cron = interval_of(schedule), cron_of(schedule)
    return {
        "interval_minutes": None if interval is None else interval[0],
        "interval_type": None if interval is None else interval[1],
        "schedule_time": None if cron is None else cron.expression,
        "schedule_enabled": is_recurring(schedule),
        "schedule": to_json(schedule),
        "timezone": None if cron is None else cron.timezone,
    }


def _in_force(view: JobView) -> Policies:
    """Return the policies with the backoff that the job goes by."""
    policies = view.definition.policies
    backoff = backoff_of(view.definition, view.facts)
    return policies if backoff is policies.backoff else replace(policies, backoff=backoff)


@lru_cache(CACHED_ANSWERS)  # most jobs share a few policies, and writing them out is half of an answer
def _policies(policies: Policies) -> Mapping[str, Any]:
    words = {name: _as_json(getattr(policies, name)) for name in POLICY_WORDS}
    return {**words, "retry_backoff_seconds": int(policies.backoff.base.total_seconds())}


def _as_json(value: Any) -> Any:
    match value:
        case timedelta():
            return format_duration(value)
        case Window():
            return value.to_json()
        case Backoff():
            return BackoffAnswer.of(value)
        case tuple():
            return list(value)
        case _:
            return value
