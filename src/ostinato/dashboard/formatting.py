"""Formatting of values on pages: times, durations, states. Every function that makes markup escapes its input."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from ostinato.core.schedule import describe
from ostinato.core.times import format_duration, zone
from ostinato.service import JobView

ABSENT: Final = "–"
SECOND: Final = timedelta(seconds=1)
MINUTE, HOUR, DAY = 60, 3600, 86400


# -- times


@pass_context
def at(context: Context, instant: datetime | None, of_job: str | None = None) -> str:
    """Write an instant in the viewer's zone, in short form; `of_job` is another zone for the tooltip."""
    return _time(context, instant, of_job, lambda visit: clock_text(instant_or(instant), visit.now, visit.zone))


@pass_context
def ago(context: Context, instant: datetime | None, of_job: str | None = None) -> str:
    """Write the distance of an instant: `in 5 min`, `3 h ago`."""
    if instant is None:
        return ABSENT
    return _time(context, instant, of_job, lambda visit: distance(instant - visit.now), "ago")


@pass_context
def soon(context: Context, instant: datetime | None, of_job: str | None = None) -> str:
    """Write the distance of a future instant; a past one is "now", also before its run has started."""
    if instant is None:
        return ABSENT
    return _time(context, instant, of_job, lambda visit: distance(max(instant - visit.now, timedelta(0))), "ago soon")


@pass_context
def both(context: Context, instant: datetime | None, of_job: str | None = None) -> str:
    """Write an instant in full, in the viewer's zone."""
    return _time(context, instant, of_job, lambda visit: in_zone(instant_or(instant), visit.zone))


def _time(
    context: Context,
    instant: datetime | None,
    of_job: str | None,
    write: Callable[[Any], str],
    kind: str = "at",
) -> str:
    if instant is None:
        return ABSENT
    visit = context["visit"]
    zones = dict.fromkeys([visit.zone, *([of_job] if of_job else []), "UTC"])
    return Markup('<time class="{}" datetime="{}" title="{}">{}</time>').format(
        kind, iso(instant), "\n".join(in_zone(instant, each) for each in zones), write(visit)
    )


@pass_context
def titles(context: Context, instant: datetime) -> str:
    """Write an instant in the viewer's zone and UTC, for a tooltip."""
    return "\n".join(in_zone(instant, each) for each in dict.fromkeys([context["visit"].zone, "UTC"]))


@pass_context
def clock(context: Context, instant: datetime) -> str:
    """Write the time of day in the viewer's zone, with milliseconds."""
    there = instant.astimezone(zone(context["visit"].zone))
    return f"{there:%H:%M:%S}.{there.microsecond // 1000:03}"


def instant_or(instant: datetime | None) -> datetime:
    assert instant is not None
    return instant


def iso(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def in_zone(instant: datetime, name: str) -> str:
    """Write `Mon 16 Nov 2026, 21:16:26 Europe/Paris`."""
    return f"{instant.astimezone(zone(name)):%a %d %b %Y, %H:%M:%S} {name}"


def clock_text(instant: datetime, now: datetime, name: str) -> str:
    """Write an instant in short: only the time if it is today, no year if it is this year."""
    there, here = instant.astimezone(zone(name)), now.astimezone(zone(name))
    if there.date() == here.date():
        return f"{there:%H:%M:%S}"
    return f"{there:%d %b %H:%M}" if there.year == here.year else f"{there:%d %b %Y}"


def clock_in(instant: datetime, name: str) -> str:
    """Write `Tue 21:16 Europe/Paris`, to stand beside the same instant in another zone."""
    return f"{instant.astimezone(zone(name)):%a %H:%M} {name}"


def distance(span: timedelta) -> str:
    """Write `in 5 min` or `3 h ago`; less than a second is `now`."""
    seconds = span.total_seconds()
    if abs(seconds) < 1:
        return "now"
    text = _rounded(abs(seconds))
    return f"in {text}" if seconds > 0 else f"{text} ago"


def _rounded(seconds: float) -> str:
    for size, least, unit in ((DAY, 2 * DAY, "d"), (HOUR, 2 * HOUR, "h"), (MINUTE, 2 * MINUTE, "min")):
        if seconds >= least:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


# -- amounts


def took(span: timedelta | None) -> str:
    """Write a measured duration with about three digits."""
    if span is None:
        return ABSENT
    seconds = max(span.total_seconds(), 0.0)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < MINUTE:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    for size, smaller, units in (
        (DAY, HOUR, ("d", "h")),
        (HOUR, MINUTE, ("h", "min")),
        (MINUTE, 1, ("min", "s")),
    ):
        if seconds >= size:
            return f"{int(seconds // size)} {units[0]} {int(seconds % size // smaller)} {units[1]}"
    return ABSENT


def span(value: timedelta | None) -> str:
    """Write a configured duration: `1h30m`."""
    return ABSENT if value is None else format_duration(value)


def number(value: float | None) -> str:
    if value is None:
        return ABSENT
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def progress(report: Mapping[str, Any] | None) -> str:
    """Write the progress of a run: `30 of 120 · orders`; without a total, its message."""
    done, of, message = ((report or {}).get(name) for name in ("done", "of", "message"))
    if not of and message:
        return str(message)
    share = "" if done is None else f"{number(done)} of {number(of)}" if of else number(done)
    return f"{share} · {message}" if message else share


def counters(counted: Mapping[str, float] | None) -> str:
    """Write counters in one line: `requests 3 · bytes received 1,204`."""
    return " · ".join(f"{name.replace('_', ' ')} {number(each)}" for name, each in (counted or {}).items())


def percent(share: float | None) -> str:
    """Write `99.5%`; `100%` only for exactly all."""
    if share is None:
        return ABSENT
    return f"{min(share, 0.999) if share < 1 else 1:.1%}".replace("100.0%", "100%")


def many(count: int, one: str, more: str = "") -> str:
    """Write `1 job` or `2 jobs`."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def pretty(value: Any) -> str:
    """Write a value as indented JSON; text stays as it is."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)


def compact(value: Any) -> str:
    """Write a value as JSON in one line."""
    return json.dumps(value, ensure_ascii=False, default=str)


def indented(text: str) -> str:
    """Indent JSON text; other text stays as it is."""
    try:
        return pretty(json.loads(text))
    except ValueError:
        return text


@pass_context
def called(context: Context, job: JobView | None) -> str:
    """Return the best name of a job; a built-in task without one is named after its subject."""
    if job is None:
        return ABSENT
    return job.definition.name or job.key or _about(context, job) or job.task


def _about(context: Context, job: JobView) -> str:
    features = context["visit"].service.features
    for name in features.built_in(job.task).subject if job.task in features.tasks else ():
        if value := job.args.get(name):
            return shortly(" ".join(map(str, value)) if isinstance(value, list) else str(value))
    return ""


def shortly(value: Any, most: int = 80) -> str:
    """Write a value in one line, cut to `most` characters."""
    text = value if isinstance(value, str) else compact(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


# -- text from other sites


def outward(url: str) -> Markup:
    """Return a link to another site; anything but an http URL stays text."""
    if not url.startswith(("https://", "http://")):
        return escape(url)
    return Markup('<a href="{}" rel="noopener noreferrer nofollow">{}</a>').format(url, shortly(url, 200))


# -- states: a colour, a shape and a word

SHAPES: Final[Mapping[str, str]] = {  # in a box of 16 by 16
    "completed": '<circle cx="8" cy="8" r="7"/><path class="in" d="M4.5 8.4 7 11l4.5-5.5"/>',
    "failed": '<rect x="1.5" y="1.5" width="13" height="13" rx="2"/><path class="in" d="m5 5 6 6m0-6-6 6"/>',
    "timed_out": '<rect x="1.5" y="1.5" width="13" height="13" rx="2"/><path class="in" d="M8 4.2V8l2.8 2"/>',
    "lost": '<rect x="1.5" y="1.5" width="13" height="13" rx="2"/><path class="in" d="M5 8h1m1.5 0h1M10 8h1"/>',
    "cancelled": '<path d="M5 1h6l4 4v6l-4 4H5l-4-4V5z"/><path class="in" d="M4.5 8h7"/>',
    "running": '<path d="M3.5 1.5v13l11-6.5z"/>',
    "queued": '<path class="on" d="M2 4h12M2 8h12M2 12h8"/>',
    "pending": '<circle class="on" cx="8" cy="8" r="6"/>',
    "scheduled": '<circle class="on" cx="8" cy="8" r="6"/><path class="on" d="M8 4.5V8l2.5 1.8"/>',
    "paused": '<path d="M3 2h4v12H3zM9 2h4v12H9z"/>',
    "skipped": '<path class="on" d="M2 8h3m2 0h2m2 0h3"/>',
    "working": '<path d="M3.5 1.5v13l11-6.5z"/>',
    "draining": '<path class="on" d="M8 2v9m-4-4 4 4 4-4M3 14h10"/>',
    "silent": '<path d="M8 1l7 13H1z"/><path class="in" d="M8 6v4m0 1.6v.6"/>',
    "stopped": '<path class="on" d="M3 3h10v10H3z"/>',
    "open": '<circle class="on" cx="8" cy="8" r="6"/>',
}
LIKE: Final = {"ready": "pending", "waiting": "queued", "exhausted": "failed", "blocked": "silent"}


def mark(state: str) -> Markup:
    """Return the shape of a state without its word."""
    known = state if state in SHAPES else LIKE.get(state, "pending")
    return Markup('<svg class="mark is-{}" viewBox="0 0 16 16" aria-hidden="true">{}</svg>').format(
        known, Markup(SHAPES[known])
    )


def state(word: Any) -> Markup:
    """Return a state with colour, shape and word."""
    text = str(word)
    return Markup('<span class="state">{}{}</span>').format(mark(text), text.replace("_", " "))


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "at": at,
    "ago": ago,
    "soon": soon,
    "both": both,
    "took": took,
    "span": span,
    "number": number,
    "progress": progress,
    "counters": counters,
    "percent": percent,
    "pretty": pretty,
    "compact": compact,
    "shortly": shortly,
    "sentence": sentence,
    "state": state,
    "mark": mark,
    "outward": outward,
    "iso": iso,
    "in_zone": in_zone,
    "describe": describe,
    "called": called,
    "indented": indented,
    "clock_in": clock_in,
    "clock": clock,
    "titles": titles,
}
GLOBALS: Final[dict[str, Any]] = {"many": many, "ABSENT": ABSENT}
