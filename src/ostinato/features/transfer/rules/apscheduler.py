"""Jobs of APScheduler 3, as its stores keep them: a pickle of the job's state for each.

Its cron differs from ours in three ways: all fields must match (a day of the month *and* a day of the week), weekdays
count from Monday = 0, and on the nights when the clocks change it runs at the shifted time, and on both passes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from ostinato.core.errors import Invalid
from ostinato.core.lifecycle import FormerState
from ostinato.core.schedule import Cron
from ostinato.core.times import format_duration
from ostinato.features.transfer.rules.found import (
    Found,
    Times,
    every,
    instant,
    once,
    other_nights,
    shifted,
    since,
    text,
    without_empty,
)
from ostinato.features.transfer.rules.pickles import Kept, Name, read_pickle, zone_name

TRIGGERS: Final = "apscheduler.triggers"
CLASSES: Final[frozenset[Name]] = frozenset(
    {(f"{TRIGGERS}.{module}", name) for module, name in (
        ("interval", "IntervalTrigger"), ("date", "DateTrigger"), ("cron", "CronTrigger"),
        ("combining", "AndTrigger"), ("combining", "OrTrigger"),
        ("calendarinterval", "CalendarIntervalTrigger"),
    )}
    | {(f"{TRIGGERS}.cron.fields", name) for name in (
        "BaseField", "WeekField", "DayOfMonthField", "DayOfWeekField", "MonthField",
    )}
    | {(f"{TRIGGERS}.cron.expressions", name) for name in (
        "AllExpression", "RangeExpression", "MonthRangeExpression", "WeekdayRangeExpression",
        "WeekdayPositionExpression", "LastDayOfMonthExpression",
    )}
)  # fmt: skip
BOUNDS: Final = {"month": (1, 12), "day": (1, 31), "day_of_week": (0, 6), "hour": (0, 23), "minute": (0, 59)}
POSITION: Final = "WeekdayPositionExpression"
LAST: Final = 5  # the option "last" of a weekday's position, after 1st … 5th


@dataclass(frozen=True, slots=True)
class _When:
    """The schedule that a trigger becomes, and its due times there."""

    schedule: Mapping[str, Any]
    times: Times
    written: str
    more: Mapping[str, Any]  # further fields of the job: end_at, jitter
    changes: str | None = None
    next_at: datetime | None = None  # without its jitter


def apscheduler_job(row: Mapping[str, Any], now: datetime) -> Found:
    """Read a row of `apscheduler_jobs`."""
    state = read_pickle(bytes(row["job_state"]), CLASSES)
    if not isinstance(state, dict) or not isinstance(state.get("func"), str):
        raise Invalid("The pickle is not the state of a job.")
    next_at = instant(row.get("next_run_time"))
    when = _when(state.get("trigger"), next_at, now)
    args, positional = dict(state.get("kwargs") or {}), list(state.get("args") or ())
    changes = [when.changes] if when.changes else []
    if positional:
        args["args"] = positional
        changes.append("its positional arguments have no names here: they arrive as the list args.")
    job = {
        "task": state["func"], "args": _plain(args), "key": text(state["id"]), "name": text(state.get("name"))[:200],
        "schedule": when.schedule, **when.more, **_policies(state),
    }  # fmt: skip
    return Found(
        ref=text(state["id"]), title=state["func"], schedule=when.written, job=without_empty(job),
        state=FormerState(next_at=when.next_at or next_at, paused_at=None if next_at is not None else now),
        times=when.times, changes=tuple(changes), notes=("it is paused there.",) if next_at is None else (),
    )  # fmt: skip


def _plain(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as JSON; Invalid for values that JSON does not have."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(args, default=_written))
    except (TypeError, ValueError) as error:
        raise Invalid(f"Its arguments are no JSON: {error}.") from None
    return plain


def _written(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"an object of the class {type(value).__name__}")


def _policies(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what misfire_grace_time, coalesce and max_instances are here. It retries nothing."""
    grace, many = state.get("misfire_grace_time"), int(state.get("max_instances") or 1)
    found: dict[str, Any] = {"max_retries": 0}
    if grace is not None:
        found |= {"catch_up": "none", "late_after": f"{int(grace)}s"}
    elif not state.get("coalesce", True):
        found["catch_up"] = "all"
    if many > 1:
        found |= {"overlap": "allow", "max_overlap": min(many, 1000)}
    return found


# -- triggers


def _when(trigger: object, next_at: datetime | None, now: datetime) -> _When:
    if not isinstance(trigger, Kept) or not isinstance(trigger.state, dict):
        raise Invalid("The trigger cannot be read.")
    state = trigger.state
    match trigger.kind:
        case "IntervalTrigger":
            return _interval(state, next_at)
        case "DateTrigger":
            return _date(state)
        case "CronTrigger":
            return _cron(state, next_at, now)
        case kind:
            raise Invalid(f"The trigger {kind} has no counterpart: make one job for each of its parts.")


def _bounds(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the end of a trigger and its jitter. Its start needs no field: the next time says it."""
    end = instant(_aware(state.get("end_date")))
    jitter = state.get("jitter")
    return {"end_at": None if end is None else end.isoformat(), "jitter": f"{jitter}s" if jitter else None}


def _aware(value: object) -> datetime | None:
    return value if isinstance(value, datetime) else None


def _interval(state: Mapping[str, Any], next_at: datetime | None) -> _When:
    period = state.get("interval")
    if not isinstance(period, timedelta):
        raise Invalid("The interval cannot be read.")
    bounds, begun = _bounds(state), instant(_aware(state.get("start_date")))
    if state.get("jitter") and next_at is not None and begun is not None:  # the next time has its jitter in it
        next_at = begun + (next_at - begun) // period * period
    return _When({"every": format_duration(period)}, every(period, next_at), f"every {period}", bounds, None, next_at)


def _date(state: Mapping[str, Any]) -> _When:
    at = instant(_aware(state.get("run_date")))
    if at is None:
        raise Invalid("The date cannot be read.")
    return _When({"at": at.isoformat()}, once(at), f"at {at.isoformat()}", {})


def _cron(state: Mapping[str, Any], next_at: datetime | None, now: datetime) -> _When:
    fields = {field.state["name"]: field.state["expressions"] for field in state["fields"]}
    timezone = zone_name(state.get("timezone"))
    for name, only in {"year": "*", "week": "*", "second": "0"}.items():
        written = ",".join(_item(each, name) for each in fields.get(name, ()))
        if written not in ("", only):
            raise Invalid(f"Its {name} is {written}: cron here has no such field.")
    parts = [_all(fields[name], name) for name in ("minute", "hour", "day", "month")]
    weekdays = _weekdays(fields["day_of_week"])
    if all(each.kind == POSITION for each in fields["day"]) and weekdays == "*":
        parts[2], weekdays = "*", parts[2]
    if not parts[2].startswith("*") and not weekdays.startswith("*"):
        raise Invalid("Day and day_of_week must both match there; a cron schedule here runs when either does.")
    schedule = Cron(" ".join([*parts, weekdays]), timezone)
    written = " ".join(f"{name}='{_all(fields[name], name)}'" for name in BOUNDS if _all(fields[name], name) != "*")
    times = shifted(schedule, both_passes=True)
    begin = None if next_at is None else next_at - timedelta(seconds=state.get("jitter") or 0)
    return _When(
        {"cron": schedule.expression, "timezone": timezone}, since(times, begin), f"cron {written} {timezone}",
        _bounds(state), other_nights(times, schedule, now),
    )  # fmt: skip


def _all(expressions: Sequence[Kept], name: str) -> str:
    return ",".join(_item(each, name) for each in expressions)


def _item(expression: Kept, name: str) -> str:
    """Write an expression of a field as cron does; numbers of weekdays stay theirs."""
    state = expression.state
    step = state.get("step")
    match expression.kind:
        case "AllExpression":
            return "*" if step is None else f"*/{step}"
        case "RangeExpression" | "MonthRangeExpression" | "WeekdayRangeExpression":
            first, last = state["first"], state.get("last")
            if last is None:
                last = first if step is None else BOUNDS.get(name, (0, 9999))[1]
            return f"{first}" if first == last else f"{first}-{last}" + (f"/{step}" if step else "")
        case "LastDayOfMonthExpression":
            return "L"
        case "WeekdayPositionExpression":
            number, day = state["option_num"], (state["weekday"] + 1) % 7
            return f"{day}L" if number == LAST else f"{day}#{number + 1}"
        case kind:
            raise Invalid(f"The expression {kind} has no counterpart.")


def _weekdays(expressions: Sequence[Kept]) -> str:
    """Write weekdays by their numbers here, where Sunday is 0."""
    if [each.kind for each in expressions] == ["AllExpression"] and expressions[0].state.get("step") is None:
        return "*"
    days = sorted({(day + 1) % 7 for each in expressions for day in _days_of(each)})
    return "*" if len(days) == 7 else ",".join(map(str, days))


def _days_of(expression: Kept) -> Iterator[int]:
    if expression.kind == "WeekdayPositionExpression":
        raise Invalid("A position of a weekday stands in the field day.")
    state = expression.state
    first, last, step = state.get("first", 0), state.get("last", 6), state.get("step") or 1
    if "first" in state and last is None:
        last = first
    yield from range(first, last + 1, step)
