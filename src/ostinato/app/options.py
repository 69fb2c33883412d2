"""The options of a job as people write them in Python: `every="30m", retries=3, timeout="10m"`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypedDict

from ostinato.core.duration import parse_duration
from ostinato.core.errors import Invalid, InvalidSchedule
from ostinato.core.model import Definition
from ostinato.core.payload import encode
from ostinato.core.policy import CatchUp, FirstRun, OnLost, Overlap, Policies, WhenExhausted
from ostinato.core.retry import Backoff, BackoffKind
from ostinato.core.schedule import Cron, Every, Manual, Once, Schedule
from ostinato.core.window import Window
from ostinato.core.zones import zone

Duration = str | float | timedelta


class Policy(TypedDict, total=False):
    """How a job behaves, whatever its schedule."""

    retries: int
    backoff: Duration | Sequence[Duration] | Backoff
    backoff_cap: Duration
    never_retry: Sequence[str]
    retry_reset_period: Duration | None
    when_exhausted: Literal["continue", "fail", "wait_reset"]
    on_lost: Literal["retry", "fail"]
    timeout: Duration | None
    priority: int
    queue: str
    keep_executions: int
    keep_days: int
    name: str
    description: str
    tags: Sequence[str]
    metadata: Mapping[str, Any]
    owner: str


class Timing(TypedDict, total=False):
    """When a job runs."""

    every: Duration
    cron: str
    timezone: str
    first_run: Literal["now", "next"]
    start_at: datetime
    end_at: datetime
    fixed_delay: bool
    total_repeats: int
    window: Window | Mapping[str, Any]
    jitter: Duration
    catch_up: Literal["latest", "all", "none"]
    late_after: Duration
    catch_up_limit: int
    catch_up_within: Duration
    overlap: Literal["skip", "queue_one", "cancel_running", "allow"]
    max_overlap: int


class JobOptions(Policy, Timing, total=False):
    """Everything that can be said about a job beside its task and args."""

    key: str


SCHEDULED_RETRIES: Final = 3
PLAIN: Final = (  # options that are policies under the same name and of the same kind
    "fixed_delay", "total_repeats", "catch_up_limit", "max_overlap", "keep_executions", "keep_days",
)  # fmt: skip
DURATIONS: Final = ("jitter", "late_after", "catch_up_within", "retry_reset_period", "timeout")
CHOICES: Final[dict[str, Any]] = {
    "first_run": FirstRun,
    "catch_up": CatchUp,
    "overlap": Overlap,
    "when_exhausted": WhenExhausted,
    "on_lost": OnLost,
}


def has_schedule(options: JobOptions) -> bool:
    return "every" in options or "cron" in options


def schedule_from(options: JobOptions, timezone: str) -> Schedule:
    """The schedule that the options name; by hand only when they name none."""
    if "every" in options and "cron" in options:
        raise InvalidSchedule("A job has one schedule: say every= or cron=, not both.")
    if "every" in options:
        return Every.of(options["every"])
    if "cron" in options:
        return Cron(options["cron"], options.get("timezone", timezone))
    return Manual()


def define(
    task: str, args: str, schedule: Schedule, options: JobOptions, app: str, default_retries: int
) -> Definition:
    """A definition from options; what they do not say has its default."""
    return Definition(
        task=task,
        schedule=schedule,
        args=args,
        policies=policies_from(options, default_retries),
        app=app,
        key=options.get("key"),
        name=options.get("name", ""),
        description=options.get("description", ""),
        queue=options.get("queue", "default"),
        priority=options.get("priority", 5),
        tags=tuple(options.get("tags", ())),
        metadata=encode(dict(options.get("metadata", {})), "metadata"),
        owner=options.get("owner", ""),
    )


def policies_from(options: JobOptions, default_retries: int) -> Policies:
    given: dict[str, Any] = {name: options[name] for name in PLAIN if name in options}
    given |= {name: _choice(name, options[name]) for name in CHOICES if name in options}  # type: ignore[literal-required]
    given |= {name: _duration(options[name]) for name in DURATIONS if name in options}
    given |= {name: instant(options[name], name) for name in ("start_at", "end_at") if name in options}
    given["max_retries"] = options.get("retries", default_retries)
    given["backoff"] = _backoff(options)
    if "window" in options:
        window = options["window"]
        given["window"] = window if isinstance(window, Window) else Window.from_json(window)
    return Policies(**given)


def instant(value: datetime, what: str = "The time") -> datetime:
    """An aware datetime, in UTC."""
    if value.tzinfo is None:
        raise Invalid(f"{what} {value} has no time zone; say which one is meant, for example {value}+00:00.")
    return value.astimezone(UTC)


def moment(at: datetime) -> Schedule:
    return Once(instant(at))


def checked_zone(name: str) -> str:
    zone(name)
    return name


def _choice(name: str, value: str) -> Any:
    kind = CHOICES[name]
    try:
        return kind(value)
    except ValueError:
        allowed = ", ".join(member.value for member in kind)
        raise Invalid(f"{name} is one of {allowed}, not {value!r}.") from None


def _duration(value: Duration | None) -> timedelta | None:
    return None if value is None else parse_duration(value)


def _backoff(options: JobOptions) -> Backoff:
    wanted = options.get("backoff")
    if isinstance(wanted, Backoff):
        backoff = wanted
    elif wanted is None:
        backoff = Backoff()
    elif isinstance(wanted, str | int | float | timedelta):
        backoff = Backoff(base=parse_duration(wanted))
    else:
        backoff = Backoff(kind=BackoffKind.STEPS, steps=tuple(parse_duration(each) for each in wanted))
    if "backoff_cap" in options:
        backoff = replace(backoff, cap=parse_duration(options["backoff_cap"]))
    if "never_retry" in options:
        backoff = replace(backoff, never_retry=tuple(options["never_retry"]))
    return backoff
