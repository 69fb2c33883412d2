"""CronJobs of Kubernetes, workflows of GitHub Actions and rules of EventBridge, by their files and documented forms.

None of the three can be asked here, so their due times are those of the expression as their pages describe it. Where
their clocks may change on other nights than ours, a job arrives paused.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from ostinato.core.errors import Invalid
from ostinato.core.lifecycle import FormerState
from ostinato.core.schedule import Cron
from ostinato.core.times import format_duration, parse_duration, zone
from ostinato.features.transfer.rules.found import (
    Found,
    by,
    changes_clocks,
    every,
    instant,
    once,
    text,
    whole,
    without_empty,
)

Document = Mapping[str, Any]

EVERY: Final = re.compile(r"@every\s+(\S+)")
RATE: Final = re.compile(r"rate\((\d+)\s+(minute|hour|day)s?\)")
CRON: Final = re.compile(r"cron\((.+)\)")
AT: Final = re.compile(r"at\((.+)\)")
UNITS: Final = {"minute": "m", "hour": "h", "day": "d"}
DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
OVERLAPS: Final = {"Allow": ("allow", 100), "Forbid": ("skip", None), "Replace": ("cancel_running", None)}


def _nights(name: str, now: datetime, whose: str) -> list[str]:
    if not changes_clocks(name, now):
        return []
    return [
        f"on the nights when the clocks of {name} change, {whose} has another rule than Debian's, which holds here."
    ]


# -- Kubernetes


def cron_job(document: Document, timezone: str, now: datetime) -> Found:
    """Read a CronJob. Its containers are not run here: the command of the first one is."""
    spec, meta = document.get("spec") or {}, document.get("metadata") or {}
    name = "/".join(text(each) for each in (meta.get("namespace"), meta.get("name")) if each)
    if not name or not spec.get("schedule"):
        raise Invalid("It has no name, or no schedule.")
    written, zone_name = " ".join(text(spec["schedule"]).split()), text(spec.get("timeZone")) or timezone
    overlap, most = OVERLAPS[text(spec.get("concurrencyPolicy")) or "Allow"]
    work = (spec.get("jobTemplate") or {}).get("spec") or {}
    deadline, seconds = spec.get("startingDeadlineSeconds"), work.get("activeDeadlineSeconds")
    job: dict[str, Any] = {
        "task": "command", "key": name[:200], "name": name[:200], "overlap": overlap, "max_overlap": most,
        "max_retries": whole(work.get("backoffLimit"), 6), "timeout": None if seconds is None else f"{seconds}s",
        "catch_up_within": None if deadline is None else f"{deadline}s",
    }  # fmt: skip
    image, args, changes = _container(work)
    job["args"] = args
    changes.insert(0, f"the image {image} is not run here: its command runs on the worker.")
    if each := EVERY.fullmatch(written):
        period = parse_duration(each[1])
        schedule, times, from_now = {"every": format_duration(period)}, every(period, None), True
    else:
        cron = Cron(_both_restricted(written), zone_name)
        schedule, times, from_now = {"cron": cron.expression, "timezone": zone_name}, by(cron), False
        changes += _nights(zone_name, now, "Kubernetes")
    return Found(
        ref=name, title=image, schedule=f"{written} {zone_name}", job=without_empty({**job, "schedule": schedule}),
        state=FormerState(
            created_at=instant(meta.get("creationTimestamp")), paused_at=now if spec.get("suspend") else None,
            last_at=instant((document.get("status") or {}).get("lastScheduleTime")),
        ),
        times=times, from_now=from_now, changes=tuple(changes),
    )  # fmt: skip


def _both_restricted(expression: str) -> str:
    """Refuse a step in one day field beside the other: either may match there, both must here."""
    fields = expression.replace("?", "*").split()
    if len(fields) == 5:
        days = fields[2], fields[4]
        if any(one.startswith("*/") and other != "*" for one, other in (days, days[::-1])):
            raise Invalid(f"{expression!r} runs there when either day field matches, and here when both do.")
    return " ".join(fields)


def _container(work: Document) -> tuple[str, dict[str, Any], list[str]]:
    containers = (((work.get("template") or {}).get("spec")) or {}).get("containers") or []
    if not containers:
        raise Invalid("It has no container.")
    first, changes = containers[0], list[str]()
    argv = [text(each) for each in (*(first.get("command") or ()), *(first.get("args") or ()))]
    if not argv:
        raise Invalid("Its container names no command: the one of its image is not known here.")
    if len(containers) > 1:
        changes.append(f"it has {len(containers)} containers: only the first one is imported.")
    env = {text(each["name"]): text(each["value"]) for each in first.get("env") or () if "value" in each}
    if len(env) < len(first.get("env") or ()):
        changes.append("variables from secrets and config maps are left out.")
    return text(first.get("image")), without_empty({"argv": argv, "env": env}), changes


# -- GitHub Actions


def workflow_file(name: str, document: Document) -> Iterator[Found]:
    """Read the schedules of a workflow file. The workflow itself is not run here."""
    triggers = document.get("on") or {}
    schedules = list((triggers.get("schedule") if isinstance(triggers, Mapping) else None) or ())
    for number, each in enumerate(schedules, 1):
        cron = Cron(text(each["cron"]), text(each.get("timezone")) or "UTC")
        key = name if len(schedules) == 1 else f"{name}-{number}"
        job = {
            "task": name, "key": f"github-{key}"[:200], "name": text(document.get("name") or name)[:200],
            "max_retries": 0,
            "schedule": {"cron": cron.expression, "timezone": cron.timezone},
        }  # fmt: skip
        yield Found(
            ref=key, title=text(document.get("name") or name), schedule=cron.expression, job=job, times=by(cron),
            changes=(f"the workflow is not run here: the task {name} is. Give it another name with --map.",),
        )  # fmt: skip


# -- EventBridge


def event_rule(row: Document, timezone: str, now: datetime) -> Found:
    """Read a rule of `aws events list-rules`, or a schedule of `aws scheduler get-schedule`."""
    written, name = text(row.get("ScheduleExpression")), text(row.get("Name"))
    if not written:
        raise Invalid("It has no ScheduleExpression: it waits for events.")
    zone_name = text(row.get("ScheduleExpressionTimezone")) or "UTC"
    changes = [f"its targets are not called here: the task {name} is. Give it another name with --map."]
    from_now = False
    if match := RATE.fullmatch(written):
        period = parse_duration(f"{match[1]}{UNITS[match[2]]}")
        schedule, times, from_now = {"every": format_duration(period)}, every(period, None), True
    elif match := CRON.fullmatch(written):
        cron = Cron(_of_aws(match[1]), zone_name)
        schedule, times = {"cron": cron.expression, "timezone": zone_name}, by(cron)
        changes += _nights(zone_name, now, "EventBridge")
    elif match := AT.fullmatch(written):
        at = datetime.fromisoformat(match[1]).replace(tzinfo=zone(zone_name))
        schedule, times = {"at": at.isoformat()}, once(at)
    else:
        raise Invalid(f"{written[:60]!r} is neither rate(…), cron(…) nor at(…).")
    job = {
        "task": name, "key": f"eventbridge-{name}"[:200], "name": name[:200], "schedule": schedule,
        "description": text(row.get("Description"))[:10_000],
    }  # fmt: skip
    return Found(
        ref=name, title=text(row.get("Description")), schedule=written, job={**without_empty(job), "max_retries": 0},
        state=FormerState(paused_at=now if text(row.get("State")).startswith("DISABLED") else None), times=times,
        from_now=from_now, changes=tuple(changes),
    )  # fmt: skip


def _of_aws(expression: str) -> str:
    """Return five fields: six there, with a year at the end, and weekdays from Sunday = 1."""
    fields = expression.upper().split()
    if len(fields) != 6:
        raise Invalid(f"cron({expression}) has not six fields.")
    *fields, year = ["*" if field == "?" else field for field in fields]
    if year != "*":
        raise Invalid(f"Its year is {year}: cron here has no such field.")
    if "W" in fields[2].replace("L", ""):
        raise Invalid(f"{fields[2]}: the nearest weekday has no counterpart.")
    fields[4] = re.sub(r"(?<![#/\d])([1-7])(?!\d)", lambda match: DAYS[int(match[1]) - 1], fields[4])
    fields[4] = re.sub(r"(SUN|MON|TUE|WED|THU|FRI|SAT)(?=[L#])", lambda match: str(DAYS.index(match[1])), fields[4])
    return " ".join(fields)
