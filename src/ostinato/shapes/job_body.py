"""A job that comes in: both vocabularies, mixed freely. The same thing said twice and differently is refused."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Final

from pydantic import ConfigDict

from ostinato.core.errors import Stale
from ostinato.core.model import Definition
from ostinato.core.payload import LONGEST_BY_FIELD, decode
from ostinato.core.policy import UNNAMED, Policies, WhenExhausted
from ostinato.core.schedule import Cron, Manual, Once, Schedule, is_recurring
from ostinato.core.times import SECOND
from ostinato.shapes import job_answer, job_words
from ostinato.shapes.answers import as_json, field_names
from ostinato.shapes.base import Text, WrongField
from ostinato.shapes.job_answer import JobAnswer
from ostinato.shapes.job_words import (
    CRAWL,
    MAY_BE_NONE,
    ONLY_HERE,
    SOURCE,
    WAYS,
    BackoffWords,
    IntervalWords,
    OurWords,
    changed,
    schedule_of,
    zoned,
)
from ostinato.shapes.openapi import (
    RECURRING,
    SOMETHING,
    Shape,
    absent,
    all_hold,
    both,
    either,
    given,
    never_null,
    says,
)

INTERVAL_WORDS: Final = frozenset({"interval_minutes", "interval_type"})
OURS: Final = Policies(backoff=UNNAMED)
RUN_ONCE: Final = Policies(max_retries=0)
SCHEDULE_WORDS: Final = frozenset({"schedule", "timezone", *INTERVAL_WORDS, "schedule_time", "schedule_enabled"})
# What moves by itself while a job runs: an answer that somebody edits and sends back may have old values of these.
MOVING: Final = frozenset(
    {"updated_at", "started_at", "completed_at", "error_message", "current_retry_count", "lock_token",
     "lock_acquired_at", "waits_for", "counters"}
)  # fmt: skip
# Somebody may mean to change these; but where the above have moved, these have moved with them.
STATE: Final = MOVING | {"status", "next_run_at", "is_paused", "paused_at", "cancelled_at"}


TEXT: Final[Shape] = {"type": "string"}
NOT_OFF: Final[Shape] = {"properties": {"schedule_enabled": {"enum": [True, None]}}}
# Rules about several fields of a new job, for the document.
TOGETHER: Final = (
    either(given(task=TEXT), given(url=TEXT)),
    either(
        both(absent(*sorted(SCHEDULE_WORDS)), {"properties": {"schedule_enabled": {"enum": [False, None]}}}),
        *WAYS,
    ),
    either(
        {"properties": {"fixed_delay": {"enum": [False, None]}}},
        given(schedule=RECURRING),
        both(given(interval_minutes=SOMETHING), NOT_OFF),
        both(given(schedule_time=SOMETHING), NOT_OFF),
    ),
    either(absent("concurrency_key"), given(max_concurrency=SOMETHING), given(rate_limit=SOMETHING)),
    either(absent("retry_backoff_seconds"), absent("backoff")),
    either(
        {"properties": {"when_exhausted": {"not": {"const": WhenExhausted.WAIT_RESET.value}}}},
        given(retry_reset_period=SOMETHING),
    ),
)


class JobBody(OurWords, IntervalWords):
    """A new job."""

    model_config = ConfigDict(json_schema_extra=all_hold(*TOGETHER))

    app: Annotated[Text, says(maxLength=LONGEST_BY_FIELD["app"])] | None = None

    read_only: ClassVar[Collection[str]] = frozenset(field_names(JobAnswer))


# An edit cannot take these away, whatever the job is.
NEVER_NONE: Final = OurWords.model_fields.keys() - MAY_BE_NONE - SCHEDULE_WORDS | {
    "schedule", "schedule_enabled", "retry_backoff_seconds", "app",
}  # fmt: skip


class JobEdit(JobBody):
    """Changes to a job. Read-only fields of an answer may be sent back unchanged."""

    model_config = ConfigDict(extra="allow", json_schema_extra=never_null(NEVER_NONE))

    @classmethod
    def _about(cls, name: str) -> str:
        return "" if name in cls.read_only else super()._about(name)

    @classmethod
    def _known(cls) -> Collection[str]:
        return {*cls.model_fields, *cls.read_only}


@dataclass(frozen=True, slots=True)
class BodyContext:
    """The context of a request body: its time and time zone."""

    now: datetime
    timezone: str
    app: str
    run_args: Callable[[str], Sequence[str]] = lambda _: ()  # what a task opens to operators by default


def new_definition(body: JobBody, here: BodyContext) -> Definition:
    """The job that a body describes."""
    said = body.said()
    schedule = one_schedule(said, here) or (Manual() if "after" in said else Once(here.now))
    ours = {name: value for name, value in said.items() if name not in ONLY_HERE | SCHEDULE_WORDS}
    ours["task"] = _task(said)
    ours["args"] = _args(ours["task"], {}, said)
    ours.setdefault("run_args", here.run_args(ours["task"]))
    if "retry_backoff_seconds" in said:
        ours["backoff"] = _backoff(said)
    policies = _defaults(said, schedule)
    return changed(Definition("", schedule, policies=policies, app=here.app), ours)


def edit(body: JobEdit, answer: JobAnswer, here: BodyContext) -> Callable[[Definition], Definition]:
    """Return the edit of a job by a body: only the values that differ from its answer."""
    current = as_json(answer)
    before = JobBody.model_validate({name: current[name] for name in JobBody.model_fields})
    _refuse_read_only(body, current)
    said = {name: getattr(body, name) for name in JobBody.model_fields if name in body.model_fields_set}
    new = {name: value for name, value in said.items() if value != getattr(before, name)}
    _refuse_missing(new)
    ours = {name: value for name, value in new.items() if name not in ONLY_HERE | SCHEDULE_WORDS}
    if "retry_backoff_seconds" in new:
        ours["backoff"] = _backoff(new)

    def change(definition: Definition) -> Definition:
        given = dict(ours)
        if new.keys() & SCHEDULE_WORDS:
            given["schedule"] = _other_schedule(definition.schedule, new, said, here)
        if new.keys() & {"task", "args", *SOURCE}:
            given["args"] = _args(given.get("task", definition.task), decode(definition.args), new)
        return changed(definition, given)

    return change


def _defaults(said: Mapping[str, Any], schedule: Schedule) -> Policies:
    if said.keys() & ONLY_HERE:
        return job_words.DEFAULTS
    return RUN_ONCE if isinstance(schedule, Once) else OURS


def _task(said: Mapping[str, Any]) -> str:
    task = said.get("task", CRAWL if "url" in said else None)
    if task is None:
        raise WrongField("task", "A job needs a task to run, or a url to crawl.")
    return str(task)


def _args(task: str, current: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """The args, with what was said about the source among them."""
    args = dict(said.get("args", current))
    source = {name: said[name] for name in SOURCE if name in said}
    for name, value in source.items():
        if "args" in said and args.get(name, value) != value:
            raise _twice(name, f"args.{name}")
    job_words.check_source({name: value for name, value in source.items() if args.get(name) != value})
    args |= source
    if task == CRAWL:
        job_words.check_crawl(args)
    return args


def _backoff(said: Mapping[str, Any]) -> BackoffWords:
    """Ours, if it says no other base than the seed's words do."""
    seconds: int = said["retry_backoff_seconds"]
    ours: BackoffWords | None = said.get("backoff")
    if ours is None:
        return BackoffWords(base=timedelta(seconds=seconds))
    if ours.base is None or ours.base // SECOND != seconds:  # what goes out in seconds is rounded down
        raise _twice("retry_backoff_seconds", "backoff")
    return ours


# -- the schedule


def one_schedule(said: Mapping[str, Any], here: BodyContext) -> Schedule | None:
    """The schedule that a body names, in whichever words. An interval wins over a cron expression."""
    zone, enabled = said.get("timezone", here.timezone), said.get("schedule_enabled")
    theirs = _in_their_words(said, said, zone)
    if "schedule" in said:
        ours = schedule_of(said["schedule"], zone, here.now)
        return _in_zone(_agreed(ours, None if enabled is False else theirs, enabled), said)
    if enabled and theirs is None:
        raise WrongField("schedule_enabled", "schedule_enabled needs interval_minutes, schedule_time or a schedule.")
    return _in_zone(None if enabled is False else theirs, said)


def _in_zone(schedule: Schedule | None, said: Mapping[str, Any]) -> Schedule | None:
    """Make sure that a zone which was said is that of the schedule; one that an interval outvoted may be idle."""
    if "timezone" in said and "schedule_time" not in said and zoned(schedule or Manual(), said["timezone"]) != schedule:
        raise _twice("timezone", "schedule")
    return schedule


def _in_their_words(new: Mapping[str, Any], said: Mapping[str, Any], zone: str) -> Schedule | None:
    cron = job_words.cron(new["schedule_time"], zone) if "schedule_time" in new else None
    if "interval_minutes" in new:
        interval = job_words.every(new["interval_minutes"], said.get("interval_type") or "minutes")
        return job_answer.keeping(interval, cron)
    if "interval_type" in new and said.get("interval_minutes") is None:
        raise WrongField("interval_type", "interval_type needs interval_minutes: how many of them?")
    if "interval_type" in new:
        return job_words.every(said["interval_minutes"], new["interval_type"])
    return cron


def _agreed(ours: Schedule, theirs: Schedule | None, enabled: bool | None) -> Schedule:
    if theirs is not None and theirs != ours:
        raise _twice("schedule", "interval_minutes or schedule_time")
    if enabled is not None and enabled is not is_recurring(ours):
        raise _twice("schedule", "schedule_enabled")
    return ours if theirs is None else job_answer.keeping(ours, job_answer.cron_of(theirs))


def _other_schedule(current: Schedule, new: Mapping[str, Any], said: Mapping[str, Any], here: BodyContext) -> Schedule:
    kept = job_answer.cron_of(current)
    zone = new.get("timezone") or (here.timezone if kept is None else kept.timezone)
    new = _without_interval(new, kept) if _ends_interval(new) else new
    if new.keys() & SCHEDULE_WORDS == {"timezone"}:
        return zoned(current, zone)
    if new.get("schedule_enabled") is False and "schedule" not in new:
        return Manual()
    interval = job_answer.interval_of(current)
    known = {"interval_minutes": None if interval is None else interval[0]} | dict(said)
    theirs = job_answer.keeping(_in_their_words(new, known, zone), kept)
    ours = schedule_of(new["schedule"], zone, here.now) if "schedule" in new else theirs
    if ours is None:
        raise WrongField("schedule_enabled", "schedule_enabled needs interval_minutes, schedule_time or a schedule.")
    _in_zone(ours, new)
    ours = job_answer.keeping(ours, kept) if ours == current else ours
    return _agreed(ours, theirs, new.get("schedule_enabled"))


def _ends_interval(new: Mapping[str, Any]) -> bool:
    """Return True if an edit removes the interval: the rollback of the intervals API."""
    return "interval_minutes" in new and new["interval_minutes"] is None


def _without_interval(new: Mapping[str, Any], kept: Cron | None) -> Mapping[str, Any]:
    """Return to the cron expression that was kept, or to the one that the edit names."""
    if kept is None and "schedule_time" not in new:
        raise WrongField(
            "interval_minutes", "interval_minutes cannot be null: the job has no schedule_time to return to."
        )
    rest = {name: value for name, value in new.items() if name not in INTERVAL_WORDS}
    return rest if kept is None else {"schedule_time": kept.expression, **rest}


# -- refusals


def _refuse_read_only(body: JobEdit, current: Mapping[str, Any]) -> None:
    given = dict(body.model_extra or {})
    if "app" in body.model_fields_set:
        given["app"] = body.app
    differs = {name for name, value in given.items() if value != current[name]}
    if "version" in differs:
        raise Stale(f"This job is at version {current['version']} by now, not {given['version']}: get it again.")
    ignored = STATE if differs & MOVING else MOVING
    for name in sorted(differs - ignored):
        raise WrongField(name, f"{name} is read-only; it is {current[name]!r} now. Leave it out.")


def _refuse_missing(new: Mapping[str, Any]) -> None:
    may_be_none = MAY_BE_NONE | INTERVAL_WORDS if _ends_interval(new) else MAY_BE_NONE
    for name, value in new.items():
        if value is None and name not in may_be_none:
            raise WrongField(name, f"{name} cannot be null: leave it out, or say what it should be.")


def _twice(one: str, other: str) -> WrongField:
    return WrongField(one, f"{one} and {other} say different things: say it once.")
