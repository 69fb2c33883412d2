"""The options of a job as people write them in Python: `every="30m", retries=3, timeout="10m"`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypedDict

from ostinato.core.errors import Invalid, InvalidSchedule
from ostinato.core.model import Definition
from ostinato.core.policy import Backoff, BackoffKind, Choice, Isolation, Policies
from ostinato.core.schedule import Cron, Every, Manual, Once, Schedule
from ostinato.core.times import Window, parse_duration
from ostinato.core.trace import stored

Duration = str | float | timedelta

MEANT: Final[Mapping[str, str]] = {  # words of other schedulers
    "interval": "every", "period": "every", "seconds": "every", "minutes": "every", "hours": "every",
    "crontab": "cron", "schedule": "cron", "max_retries": "retries", "tz": "timezone",
}  # fmt: skip


class Policy(TypedDict, total=False):
    """Policies of a job, whatever its schedule."""

    retries: int
    backoff: Duration | Sequence[Duration] | Backoff
    backoff_cap: Duration
    never_retry: Sequence[str | type[BaseException]]
    retry_reset_period: Duration | None
    when_exhausted: Literal["continue", "fail", "wait_reset"]
    on_lost: Literal["retry", "fail"]
    timeout: Duration | None
    priority: int
    queue: str
    keep_executions: int
    keep_days: int
    max_concurrency: int
    concurrency_key: str
    rate_limit: str
    cpu_limit: Duration | None
    memory_limit_mb: int
    open_files_limit: int
    output_limit_mb: int
    run_args: Sequence[str]
    name: str
    description: str
    tags: Sequence[str]
    metadata: Mapping[str, Any]
    owner: str


class Timing(TypedDict, total=False):
    """The timing of a job."""

    every: Duration
    cron: str
    after: str
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


class TaskOptions(JobOptions, total=False):
    """Options of a task: its isolation, and the policies of its jobs."""

    isolation: Literal["async", "thread", "process"]


POLICY_OPTIONS: Final = frozenset(Policy.__annotations__)
JOB_OPTIONS: Final = frozenset(JobOptions.__annotations__)
TASK_OPTIONS: Final = frozenset(TaskOptions.__annotations__)
LIMITS: Final = ("cpu_limit", "memory_limit_mb", "open_files_limit", "output_limit_mb")
SCHEDULED_RETRIES: Final = 3
NUMBERS: Final = (
    "total_repeats", "catch_up_limit", "max_overlap", "keep_executions", "keep_days", "memory_limit_mb",
    "open_files_limit", "output_limit_mb", "max_concurrency",
)  # fmt: skip
TEXTS: Final = ("concurrency_key", "rate_limit", "after")
DURATIONS: Final = ("jitter", "late_after", "catch_up_within")
DURATIONS_OR_NONE: Final = ("retry_reset_period", "timeout", "cpu_limit")
CHOICES: Final = {each.name: each.type for each in fields(Policies) if isinstance(each.default, Choice)}
ISOLATION: Final = "isolation"


def has_schedule(options: Mapping[str, Any]) -> bool:
    return "every" in options or "cron" in options or "after" in options


def check_names(options: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse options that do not exist: left alone, a misspelt one would do nothing."""
    for name in options:
        if name not in known:
            raise Invalid(f"There is no option {name}={_did_you_mean(name, known)}")


def schedule_from(options: JobOptions, timezone: str) -> Schedule:
    """The schedule that the options name; by hand only when they name none."""
    if "every" in options and "cron" in options:
        raise InvalidSchedule("A job has one schedule: say every= or cron=, not both.")
    if "every" in options:
        return Every.of(options["every"])
    if "cron" in options:
        return Cron(options["cron"], options.get("timezone", timezone))
    return Manual()


def define(task: str, args: str, schedule: Schedule, options: JobOptions, app: str, default_retries: int) -> Definition:
    """A definition from options; what they do not say has its default."""
    policies = policies_from(options, default_retries)
    if not isinstance(schedule, Once) and not options.keys() & {"backoff", "backoff_cap"}:
        policies = replace(policies, backoff=replace(policies.backoff, within_period=True))
    return Definition(
        task=task,
        schedule=schedule,
        args=args,
        policies=policies,
        app=app,
        key=None if options.get("key") is None else _text("key", options["key"]),
        name=_text("name", options.get("name", "")),
        description=_text("description", options.get("description", "")),
        queue=_text("queue", options.get("queue", "default")),
        priority=_number("priority", options.get("priority", 5)),
        tags=tuple(_text("tags", tag) for tag in _several("tags", options.get("tags", ()))),
        metadata=stored(dict(options.get("metadata", {}))),
        owner=_text("owner", options.get("owner", "")),
    )


def policies_from(options: JobOptions, default_retries: int) -> Policies:
    said: Mapping[str, Any] = options
    given: dict[str, Any] = {name: _number(name, said[name]) for name in NUMBERS if name in said}
    given |= {name: _text(name, said[name]) for name in TEXTS if name in said}
    given |= {name: _choice(name, said[name]) for name in CHOICES if name in said}
    given |= {name: parse_duration(said[name]) for name in DURATIONS if name in said}
    given |= {name: _duration_or_none(said[name]) for name in DURATIONS_OR_NONE if name in said}
    given |= {name: instant(said[name], name) for name in ("start_at", "end_at") if name in said}
    given["fixed_delay"] = bool(options.get("fixed_delay", False))
    given["max_retries"] = _number("retries", options.get("retries", default_retries))
    given["backoff"] = _backoff(options)
    given["run_args"] = run_args_from(options)
    if "window" in options:
        window = options["window"]
        given["window"] = window if isinstance(window, Window) else Window.from_json(window)
    return Policies(**given)


def limits_from(options: JobOptions) -> dict[str, Any]:
    """The policies that hold for every run of a task, however its job was made."""
    policies = policies_from(options, 0)
    return {name: getattr(policies, name) for name in ("timeout", *LIMITS) if options.get(name) is not None}


def run_args_from(options: JobOptions) -> tuple[str, ...]:
    """The args that an operator may set at a run."""
    return tuple(_text("run_args", name) for name in _several("run_args", options.get("run_args", ())))


def instant(value: datetime, what: str = "The time") -> datetime:
    """An aware datetime, in UTC."""
    if not isinstance(value, datetime):
        raise Invalid(f"{what} is a datetime with a time zone, not {value!r}.")
    if value.utcoffset() is None:
        raise Invalid(f"{what} {value} has no time zone; say which one is meant, for example {value}+00:00.")
    return value.astimezone(UTC)


def isolation_from(options: TaskOptions) -> Isolation | None:
    """Return the isolation of a task; None if it leaves that to its kind and to the worker."""
    return None if ISOLATION not in options else _one_of(Isolation, ISOLATION, options["isolation"])


def _choice(name: str, value: str) -> Any:
    return _one_of(CHOICES[name], name, value)


def _one_of(kind: Any, name: str, value: object) -> Any:
    try:
        return kind(value)
    except ValueError:
        allowed = ", ".join(member.value for member in kind)
        raise Invalid(f"{name} is one of {allowed}, not {value!r}.") from None


def _number(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise Invalid(f"{name} is a whole number, not {value!r}.")


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise Invalid(f"{name} is text, not {value!r}.")


def _several(name: str, values: object) -> Sequence[Any]:
    """A list, and not one text: that would be taken letter by letter."""
    if isinstance(values, Sequence) and not isinstance(values, str):
        return values
    raise Invalid(f"{name} is a list, not {values!r}.")


def _duration_or_none(value: Duration | None) -> timedelta | None:
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
        steps = tuple(parse_duration(each) for each in wanted)
        backoff = Backoff(BackoffKind.STEPS, steps=steps, cap=max(steps, default=Backoff().cap))
    if "backoff_cap" in options:
        backoff = replace(backoff, cap=parse_duration(options["backoff_cap"]))
    if "never_retry" in options:
        errors = _several("never_retry", options["never_retry"])
        backoff = replace(backoff, never_retry=tuple(_error_name(each) for each in errors))
    return backoff


def _error_name(error: str | type[BaseException]) -> str:
    return error.__name__ if isinstance(error, type) else _text("never_retry", error)


def _did_you_mean(unknown: str, known: Collection[str]) -> str:
    from difflib import get_close_matches  # only mistakes pay for it

    close = [MEANT[unknown]] if MEANT.get(unknown) in known else get_close_matches(unknown, sorted(known), n=1)
    return f"; did you mean {close[0]}=?" if close else "."
