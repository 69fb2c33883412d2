"""Schedules of Celery beat, from an app's configuration or from the tables of django-celery-beat.

Its crontab differs from ours in two ways: a day of the month *and* a day of the week must match, and on the nights when
the clocks change it runs at the shifted time, and on the first pass only.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    whole,
    without_empty,
)

Row = Mapping[str, Any]

FIELDS: Final = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
WORD: Final = re.compile(r"([a-z]{3})[a-z]+")  # sunday, january: cron has three letters
UNITS: Final = ("days", "hours", "minutes", "seconds", "microseconds")


@dataclass(frozen=True, slots=True)
class _When:
    """The schedule that an entry becomes, and its due times there."""

    schedule: Mapping[str, Any]
    times: Times
    written: str
    from_now: bool = False
    changes: tuple[str, ...] = ()


def beat_entry(name: str, entry: Row, timezone: str, now: datetime) -> Found:
    """Read an entry of `beat_schedule`. What ran last is only in the file of beat, which is not read."""
    options, task = dict(entry.get("options") or {}), entry.get("task")
    if not isinstance(task, str):
        raise Invalid("It names no task.")
    when = _of_object(entry.get("schedule"), timezone, now)
    return _found(name, task, when, FormerState(), entry.get("args"), entry.get("kwargs"), options)


def _of_object(schedule: object, timezone: str, now: datetime) -> _When:
    """Read a schedule object by its attributes: Celery need not be imported here."""
    kind = type(schedule).__name__
    if isinstance(schedule, int | float) and not isinstance(schedule, bool):
        return _interval(timedelta(seconds=schedule), None)
    if isinstance(schedule, timedelta):
        return _interval(schedule, None)
    if kind == "crontab":
        fields = [text(getattr(schedule, f"_orig_{name}", "*")) for name in FIELDS]
        return _crontab(fields, timezone, now)
    if kind == "schedule":
        period = getattr(schedule, "run_every", None)
        if isinstance(period, timedelta):
            return _interval(period, None)
    raise Invalid(f"The schedule {kind} has no counterpart.")


def periodic_task(row: Row, schedules: Mapping[str, Mapping[int, Row]], timezone: str, now: datetime) -> Found:
    """Read a row of `django_celery_beat_periodictask`, with the schedules by table and id."""
    last_at, enabled = instant(row.get("last_run_at")), bool(row.get("enabled"))
    when = _of_row(row, schedules, last_at, timezone, now)
    is_over = bool(row.get("one_off")) and whole(row.get("total_run_count")) > 0
    state = FormerState(
        next_at=_next(when, last_at) if not when.from_now else None, last_at=last_at,
        paused_at=None if enabled or is_over else instant(row.get("date_changed")) or now,
        ended_at=(last_at or now) if is_over else None,
    )  # fmt: skip
    options = {
        "queue": row.get("queue"), "expires": row.get("expires") or row.get("expire_seconds"),
        "start_time": instant(row.get("start_time")), "description": row.get("description"),
    }  # fmt: skip
    args, kwargs = (json.loads(text(row.get(name)) or default) for name, default in (("args", "[]"), ("kwargs", "{}")))
    when = replace(when, times=since(when.times, state.next_at))
    found = _found(text(row["name"]), text(row["task"]), when, state, args, kwargs, options)
    if enabled or is_over:
        return found
    return replace(found, notes=("it is not enabled there: it arrives paused.", *found.notes))


def _next(when: _When, last_at: datetime | None) -> datetime | None:
    """Return the next time after the last run, as beat counts it."""
    if last_at is None:
        return None
    return next(iter(when.times(last_at, 1)), None)


def _of_row(
    row: Row, schedules: Mapping[str, Mapping[int, Row]], last_at: datetime | None, timezone: str, now: datetime
) -> _When:
    if row.get("solar_id"):
        raise Invalid("A solar schedule has no counterpart: sunrise moves every day.")
    if row.get("clocked_id"):
        at = instant(schedules["clocked"][row["clocked_id"]]["clocked_time"])
        if at is None:
            raise Invalid("Its clocked time is missing.")
        return _When({"at": at.isoformat()}, once(at), f"at {at.isoformat()}")
    if row.get("interval_id"):
        one = schedules["interval"][row["interval_id"]]
        if one["period"] not in UNITS:
            raise Invalid(f"The period {one['period']!r} is not known.")
        period = timedelta(**{one["period"]: whole(one["every"])})
        return _interval(period, None if last_at is None else last_at + period)
    if row.get("crontab_id"):
        one = schedules["crontab"][row["crontab_id"]]
        return _crontab([text(one[name]) for name in FIELDS], text(one.get("timezone")) or timezone, now)
    raise Invalid("It has no schedule.")


def _interval(period: timedelta, next_at: datetime | None) -> _When:
    return _When({"every": format_duration(period)}, every(period, next_at), f"every {period}", next_at is None)


def _crontab(fields: list[str], timezone: str, now: datetime) -> _When:
    parts = [WORD.sub(r"\1", "".join(field.split()).lower()) or "*" for field in fields]
    if not parts[2].startswith("*") and not parts[4].startswith("*"):
        raise Invalid("day_of_month and day_of_week must both match there; a cron schedule here runs when either does.")
    schedule = Cron(" ".join(parts), timezone)
    times = shifted(schedule, both_passes=False)
    other = other_nights(times, schedule, now)
    return _When(
        {"cron": schedule.expression, "timezone": timezone}, times, f"{schedule.expression} {timezone}",
        changes=() if other is None else (other,),
    )  # fmt: skip


def _found(
    name: str, task: str, when: _When, state: FormerState, args: Any, kwargs: Any, options: Mapping[str, Any]
) -> Found:
    """Make the job. Its retries are in the code of the task there, so it has none here."""
    given, changes, notes = dict(kwargs or {}), list(when.changes), list[str]()
    if args:
        given["args"] = list(args)
        changes.append("its positional arguments have no names here: they arrive as the list args.")
    if options.get("expires"):
        notes.append("expires is not imported: see catch_up_within and timeout.")
    start = options.get("start_time")
    job = {
        "task": task, "args": given, "key": name[:200], "name": name[:200], "schedule": when.schedule,
        "queue": options.get("queue"), "description": text(options.get("description"))[:10_000],
        "start_at": start.isoformat() if isinstance(start, datetime) else None,
    }  # fmt: skip
    return Found(
        ref=name, title=task, schedule=when.written, job={**without_empty(job), "max_retries": 0}, state=state,
        times=when.times, from_now=when.from_now, changes=tuple(changes), notes=tuple(notes),
    )  # fmt: skip
