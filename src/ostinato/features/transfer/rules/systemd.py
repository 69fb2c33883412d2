"""Timers of systemd: `OnCalendar` and `OnUnitActiveSec` of a .timer file, and the programs of its .service file.

A calendar expression names wall times; in a gap it has none, and in a fold they count on the first pass only. A day of
the week *and* a date must match.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from ostinato.core.errors import Invalid
from ostinato.core.schedule import Cron
from ostinato.core.times import format_duration, parse_duration, zone_names
from ostinato.features.transfer.rules.found import Found, Times, every, other_nights, shifted, without_empty

Section = Mapping[str, Sequence[str]]

WORDS: Final = {
    "minutely": "*-*-* *:*:00", "hourly": "*-*-* *:00:00", "daily": "*-*-* 00:00:00", "weekly": "Mon *-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00", "quarterly": "*-01,04,07,10-01 00:00:00", "semiannually": "*-01,07-01 00:00:00",
    "yearly": "*-01-01 00:00:00", "annually": "*-01-01 00:00:00",
}  # fmt: skip
WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
UNITS: Final = {
    "us": "us", "usec": "us", "ms": "ms", "msec": "ms", "": "s", "s": "s", "sec": "s", "second": "s", "seconds": "s",
    "m": "m", "min": "m", "minute": "m", "minutes": "m", "h": "h", "hr": "h", "hour": "h", "hours": "h", "d": "d",
    "day": "d", "days": "d", "w": "w", "week": "w", "weeks": "w",
}  # fmt: skip
SPAN: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)")
BOUNDS: Final = {"month": (1, 12), "day": (1, 31), "hour": (0, 23), "minute": (0, 59)}
PREFIXES: Final = "@-:+!|"
ONLY_AT_START: Final = ("OnBootSec", "OnStartupSec", "OnActiveSec")


@dataclass(frozen=True, slots=True)
class _When:
    """One schedule of a timer: a timer with several becomes several jobs."""

    schedule: Mapping[str, Any]
    times: Times
    written: str
    from_now: bool = False
    changes: tuple[str, ...] = field(default=())


def sections(written: str) -> dict[str, dict[str, list[str]]]:
    """Read a unit file: sections, each with the values of its names. An empty value clears those before it."""
    found: dict[str, dict[str, list[str]]] = {}
    current: dict[str, list[str]] = {}
    for line in written.replace("\\\n", " ").splitlines():
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("[") and line.endswith("]"):
            current = found.setdefault(line[1:-1], {})
            continue
        name, _, value = line.partition("=")
        values = current.setdefault(name.strip(), [])
        values.append(value.strip())
        if not value.strip():
            values.clear()
    return found


def service_of(name: str, written: str) -> str:
    """Return the name of the file of a timer's service."""
    return _last(sections(written).get("Timer", {}), "Unit") or f"{name}.service"


def timer_jobs(name: str, written: str, service: str | None, timezone: str, now: datetime) -> Iterator[Found]:
    """Read a timer and its service. Each of its schedules becomes a job."""
    timer = sections(written).get("Timer", {})
    whens = [*_whens(timer, timezone, now)]
    if not whens:
        only = ", ".join(each for each in ONLY_AT_START if timer.get(each)) or "no schedule"
        raise Invalid(f"It has {only}: no schedule can say when the machine starts.")
    args, changes = _program(name, service)
    jitter = _last(timer, "RandomizedDelaySec")
    for number, when in enumerate(whens, 1):
        key = name if len(whens) == 1 else f"{name}-{number}"
        job = {
            "task": "command", "args": args, "key": f"systemd-{key}"[:200], "name": name[:200],
            "description": _last(sections(written).get("Unit", {}), "Description") or "", "schedule": when.schedule,
            "jitter": None if jitter is None else format_duration(span(jitter)),
            "catch_up": None if _last(timer, "Persistent") in ("true", "yes", "1", "on") else "none",
        }  # fmt: skip
        notes = ("OnBootSec is left out: no schedule can say when the machine starts.",) if _boots(timer) else ()
        yield Found(
            ref=key, title=" ".join(args.get("argv", ())) or str(args.get("script", "")), schedule=when.written,
            job={**without_empty(job), "max_retries": 0}, times=when.times, from_now=when.from_now,
            changes=(*when.changes, *changes), notes=notes,
        )  # fmt: skip


def _boots(timer: Section) -> bool:
    return any(timer.get(each) for each in ONLY_AT_START)


def _last(section: Section, name: str) -> str | None:
    values = section.get(name)
    return values[-1] if values else None


def _whens(timer: Section, timezone: str, now: datetime) -> Iterator[_When]:
    for written in timer.get("OnCalendar", ()):
        cron = calendar(written, timezone)
        times = shifted(cron, both_passes=False, in_gap=False)
        other = other_nights(times, cron, now)
        yield _When(
            {"cron": cron.expression, "timezone": cron.timezone},
            times,
            written,
            changes=() if other is None else (other,),
        )
    for name in ("OnUnitActiveSec", "OnUnitInactiveSec"):
        for written in timer.get(name, ()):
            period = span(written)
            schedule = {"every": format_duration(period)}
            yield _When(schedule, every(period, None), f"every {written}", from_now=True)


def span(written: str) -> timedelta:
    """Read a time span, such as `1h 30min` or `90`."""
    total, rest = timedelta(), written.strip().lower()
    while rest:
        match = SPAN.match(rest)
        if match is None or match[2] not in UNITS:
            raise Invalid(f"{written!r} is not a time span that is read here.")
        total += parse_duration(f"{match[1]}{UNITS[match[2]]}")
        rest = rest[match.end() :].strip()
    return total


def calendar(written: str, timezone: str) -> Cron:
    """Read a calendar expression; Invalid for what cron cannot say."""
    words = WORDS.get(written.strip().lower(), written).split()
    zone_name = words.pop() if words and words[-1] in zone_names() else timezone
    weekdays = words.pop(0) if words and words[0][:3].lower() in WEEKDAYS else "*"
    date = words.pop(0) if words and "-" in words[0] else "*-*-*"
    clock = words.pop(0) if words else "00:00:00"
    if words or clock.count(":") not in (1, 2) or date.count("-") not in (1, 2):
        raise Invalid(f"{written!r} is not a calendar expression that is read here.")
    if "~" in date:
        raise Invalid(f"{written!r} counts from the end of the month, which cron cannot.")
    year, month, day = date.split("-") if date.count("-") == 2 else ("*", *date.split("-", 1))
    hour, minute, second = (clock if clock.count(":") == 2 else f"{clock}:00").split(":")
    if year != "*" or second.strip("0"):
        raise Invalid(f"{written!r} names a year or seconds, which cron here cannot.")
    days = _component(day, "day", written)
    if days != "*" and weekdays != "*":
        raise Invalid(f"{written!r} runs when weekday and date both match; a cron schedule here runs when either does.")
    fields = [_component(minute, "minute", written), _component(hour, "hour", written), days]
    return Cron(" ".join([*fields, _component(month, "month", written), _weekdays(weekdays, written)]), zone_name)


def _component(text: str, name: str, written: str) -> str:
    """Write a component as cron does: `..` is a range, and a start with a step goes on to the end."""
    parts = []
    for part in text.split(","):
        match = re.fullmatch(r"(\*|\d+)(?:\.\.(\d+))?(?:/(\d+))?", part)
        if match is None:
            raise Invalid(f"{part!r} in {written!r} is not read here.")
        begin, end, step = match[1], match[2], match[3]
        if begin == "*":
            parts.append("*" if step is None else f"*/{int(step)}")
        elif end is None and step is None:
            parts.append(str(int(begin)))
        else:
            last = BOUNDS[name][1] if end is None else int(end)
            parts.append(f"{int(begin)}-{last}" + ("" if step is None else f"/{int(step)}"))
    return ",".join(parts)


def _weekdays(text: str, written: str) -> str:
    """Write weekdays as lists; a range that goes over Sunday is an error there too."""
    if text == "*":
        return "*"
    days = list[int]()
    for part in filter(None, text.lower().split(",")):
        first, _, last = part.partition("..")
        if first[:3] not in WEEKDAYS or (last and last[:3] not in WEEKDAYS):
            raise Invalid(f"{part!r} in {written!r} is no day of the week.")
        begin = WEEKDAYS.index(first[:3])
        end = WEEKDAYS.index(last[:3]) if last else begin
        if end < begin:
            raise Invalid(f"{part!r} in {written!r} ends before it begins.")
        days += range(begin, end + 1)
    return ",".join(WEEKDAYS[day] for day in sorted(set(days)))


def _program(name: str, service: str | None) -> tuple[dict[str, Any], list[str]]:
    """Return the args of the task `command`, and what a service says beyond them."""
    if service is None:
        raise Invalid(f"Its service {name}.service is not in the same folder.")
    found = sections(service).get("Service", {})
    lines, changes = [line.lstrip(PREFIXES) for line in found.get("ExecStart", ())], list[str]()
    if not lines:
        raise Invalid("Its service has no ExecStart.")
    if len(lines) > 1:
        raise Invalid(f"Its service has {len(lines)} programs: make one script of them.")
    argv = shlex.split(lines[0])
    if "%" in lines[0] or "$" in lines[0]:
        changes.append("specifiers and variables of its command are not replaced here.")
    if user := _last(found, "User"):
        changes.append(f"it runs as {user} there, and as the user of the worker here.")
    if found.get("ExecStartPre") or found.get("ExecStartPost"):
        changes.append("ExecStartPre and ExecStartPost are left out.")
    env = dict(pair.partition("=")[::2] for line in found.get("Environment", ()) for pair in shlex.split(line))
    return without_empty({"argv": argv, "env": env, "cwd": _last(found, "WorkingDirectory")}), changes
