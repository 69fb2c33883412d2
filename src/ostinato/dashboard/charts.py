"""Charts as SVG with attributes and classes only, since the policy of the site forbids inline styles.

Text is in HTML beside a drawing, because the browser stretches a drawing, and would stretch its letters.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from markupsafe import Markup

from ostinato.core.model import Status
from ostinato.core.outcome import OutcomeKind
from ostinato.core.read_models import Hour, Ran
from ostinato.dashboard.formatting import clock_text, in_zone, many, took
from ostinato.service import JobView

WIDTH, HEIGHT = 1000, 100
SPARK: Final = 6  # pixels for one run
TALL: Final = 22
LOWEST: Final = 5
ZERO: Final = timedelta(0)
SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its stacked parts, the first at the bottom, and its tooltip."""

    parts: Sequence[tuple[str, float]]  # class and amount
    title: str
    is_known: bool = True

    @property
    def total(self) -> float:
        return sum(amount for _, amount in self.parts)


def bars(given: Sequence[Bar], label: str) -> Markup:
    """Draw bars side by side, scaled to the highest one."""
    most = max((bar.total for bar in given), default=0) or 1
    step = WIDTH / max(len(given), 1)
    drawn = Markup("").join(_bar(bar, number * step, step, most) for number, bar in enumerate(given))
    return Markup(
        '<svg class="bars" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, label, drawn)


def _bar(bar: Bar, x: float, step: float, most: float) -> Markup:
    """Draw one bar. It concatenates only our own words and numbers, for speed: a week has hundreds of bars."""
    wide, bottom = step * 0.8, float(HEIGHT)
    drawn = f'<rect class="hit{"" if bar.is_known else " unknown"}" x="{x:.2f}" width="{step:.2f}" height="{HEIGHT}"/>'
    for kind, amount in bar.parts:
        if not amount:
            continue
        high = max(amount / most * HEIGHT, 1.5)  # one among thousands must stay visible
        bottom -= high
        place = f'x="{x + step * 0.1:.2f}" y="{max(bottom, 0):.2f}" width="{wide:.2f}" height="{high:.2f}"'
        drawn += f'<rect class="is-{kind}" {place}/>'
    return Markup("<g>{}<title>{}</title></g>").format(Markup(drawn), bar.title)


@dataclass(frozen=True, slots=True)
class Dot:
    """One run in a small chart."""

    kind: str
    duration: timedelta | None
    title: str = ""


def spark(runs: Sequence[Dot], places: int = 20) -> Markup:
    """Draw the newest runs, the newest last; the height shows the duration, the shape the outcome.

    A list has a thousand runs, so all runs of a kind are one path, made only of our own words and numbers.
    """
    shown = list(runs)[-places:]
    longest = max((run.duration for run in shown if run.duration), default=SECOND)
    paths: dict[str, list[str]] = {}
    for place, run in enumerate(shown, places - len(shown)):
        paths.setdefault(run.kind, []).append(_spark(run, place * SPARK + 1, longest))
    drawn = Markup("").join(
        Markup('<path class="is-{}" d="{}"/>').format(kind, "".join(each)) for kind, each in paths.items()
    )
    label = ", ".join(f"{len(each)} {kind.replace('_', ' ')}" for kind, each in paths.items()) or "no runs yet"
    return Markup(
        '<svg class="spark" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="img" aria-label="{2}">'
        '<title>{2}</title><path class="ground" d="M0 {3}h{0}"/>{4}</svg>'
    ).format(places * SPARK, TALL, f"Last runs: {label}", TALL - 0.5, drawn)


def _spark(run: Dot, x: int, longest: timedelta) -> str:
    match run.kind:
        case "completed":
            share = (run.duration or ZERO) / longest if longest else 0
            high = LOWEST + (TALL - 2 * LOWEST) * min(max(share, 0), 1)
            return f"M{x} {TALL - high:.1f}v{high:.1f}h4v-{high:.1f}z"
        case "failed" | "timed_out" | "lost":  # full height, with a separate head
            return f"M{x} {LOWEST}v{TALL - LOWEST}h4v-{TALL - LOWEST}zM{x} 0h4v3h-4z"
        case "running" | "queued":  # an arrow
            return f"M{x} {TALL - 9}v8l4-4z"
        case _:  # no outcome of its own: a dash
            return f"M{x} {TALL - 8}h4v2h-4z"


@dataclass(frozen=True, slots=True)
class Scatter:
    """Durations of a job, the newest last, with the median and the limit of outliers."""

    dots: Sequence[Dot]
    usual: timedelta | None
    outlier: timedelta | None


def scatter(given: Scatter, label: str) -> Markup:
    """Draw one dot for each run; outliers and failed runs have other shapes.

    The scale is a square root, so that runs of a minute stay visible beside a run of an hour.
    """
    top = max((dot.duration for dot in given.dots if dot.duration), default=SECOND) or SECOND
    step = WIDTH / max(len(given.dots), 1)

    def y(span: timedelta) -> float:
        return 172.0 - 160.0 * math.sqrt(max(span / top, 0.0))

    drawn = [_dot(dot, (n + 0.5) * step, y(dot.duration), given) for n, dot in enumerate(given.dots) if dot.duration]
    lines = [
        Markup('<path class="{}" d="M0 {:.1f}h{}"/>').format(kind, y(at), WIDTH)
        for kind, at in (("usual", given.usual), ("far", given.outlier))
        if at is not None and at <= top
    ]
    return Markup('<svg class="scatter" viewBox="0 0 {} 180" role="img" aria-label="{}">{}{}</svg>').format(
        WIDTH, label, Markup("").join(lines), Markup("").join(drawn)
    )


def _dot(dot: Dot, x: float, y: float, given: Scatter) -> Markup:
    far = given.outlier is not None and dot.duration is not None and dot.duration > given.outlier
    if dot.kind != "completed":
        shape = Markup('<path class="cross" d="M{:.1f} {:.1f}l10 10m0-10l-10 10"/>').format(x - 5, y - 5)
    elif far:
        shape = Markup('<path d="M{:.1f} {:.1f}l7 7-7 7-7-7z"/>').format(x, y - 7)
    else:
        shape = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="4"/>').format(x, y)
    kind = "is-far" if far and dot.kind == "completed" else f"is-{dot.kind}"
    return Markup('<g class="{}">{}<title>{}</title></g>').format(kind, shape, dot.title)


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a run."""

    kind: str
    word: str
    length: timedelta


def phases(given: Sequence[Phase]) -> Markup:
    """Draw phases one after the other, each as wide as its duration; phases without duration are left out."""
    total = sum((phase.length for phase in given), timedelta(0)) or SECOND
    x, drawn = 0.0, []
    for phase in given:
        wide = max(phase.length / total * WIDTH, 4.0 if phase.length else 0)
        drawn.append(
            Markup(
                '<rect class="phase-{}" x="{:.1f}" y="0" width="{:.1f}" height="20"><title>{}: {}</title></rect>'
            ).format(phase.kind, x, wide, phase.word, took(phase.length))
        )
        x += wide
    label = ", ".join(f"{phase.word} {took(phase.length)}" for phase in given)
    return Markup(
        '<svg class="phases" viewBox="0 0 {:.1f} 20" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(max(x, 1.0), label, Markup("").join(drawn))


def meter(share: float, label: str, kind: str = "busy") -> Markup:
    """Draw a meter of a share."""
    return Markup(
        '<svg class="meter {}" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="ground" width="100" height="6"/><rect class="taken" width="{:.1f}" height="6"/></svg>'
    ).format(kind, label, min(max(share, 0), 1) * 100)


GLOBALS: Final[dict[str, Any]] = {
    "bars": bars,
    "spark": spark,
    "scatter": scatter,
    "phases": phases,
    "meter": meter,
}


# -- Runs and hourly counts as dots and bars of charts, with their tooltips

OUTCOMES = (("completed", "completed"), ("cancelled", "cancelled"), ("failed", "failed, timed out or lost"))


def dots(runs: Iterable[Ran], visit_zone: str) -> list[Dot]:
    """Return a dot for each run."""
    return [Dot(ran.outcome.value, ran.duration, _tooltip(ran, visit_zone)) for ran in runs]


def _tooltip(ran: Ran, visit_zone: str) -> str:
    how = ran.outcome.value.replace("_", " ") + (f", {ran.error_kind}" if ran.error_kind else "")
    which = f"#{ran.number}" + (f", retry {ran.attempt}" if ran.attempt else "")
    return f"{which}: {how}, {took(ran.duration)}\n{in_zone(ran.due_at, visit_zone)}"


def spark_dots(view: JobView, runs: Sequence[Ran]) -> list[Dot]:
    """Return dots for the newest runs of a job, and one for its current run."""
    now = [Dot("running", None)] if view.status is Status.RUNNING else []
    return [*(Dot(ran.outcome.value, ran.duration) for ran in runs), *now]


def durations(runs: Sequence[Ran], visit_zone: str) -> Scatter:
    """Chart the durations of runs. An outlier is three times the distance of the upper quartile from the median."""
    took_long = sorted(
        ran.duration for ran in runs if ran.outcome is OutcomeKind.COMPLETED and ran.duration is not None
    )
    if not took_long:
        return Scatter(dots(runs, visit_zone), None, None)
    middle, upper = took_long[len(took_long) // 2], took_long[len(took_long) * 3 // 4]
    far = max(middle + 6 * (upper - middle), 2 * middle, timedelta(milliseconds=100))
    return Scatter(dots(runs, visit_zone), middle, far)


def hour_bars(hours: Sequence[Hour], visit_zone: str) -> list[Bar]:
    """Return bars of executions per hour, by outcome."""
    return [_hour(hour, visit_zone) for hour in hours]


def _hour(hour: Hour, visit_zone: str) -> Bar:
    at = clock_text(hour.at, hour.at - timedelta(days=1), visit_zone)
    if hour.ended is None:
        return Bar((), f"{at}: not counted yet", is_known=False)
    ended = hour.ended
    failed = ended[OutcomeKind.FAILED] + ended[OutcomeKind.TIMED_OUT] + ended[OutcomeKind.LOST]
    title = f"{at}\n{many(ended[OutcomeKind.COMPLETED], 'completed', 'completed')}, {failed:,} failed"
    cancelled = f", {ended[OutcomeKind.CANCELLED]:,} cancelled" if ended[OutcomeKind.CANCELLED] else ""
    parts = (
        ("completed", ended[OutcomeKind.COMPLETED]),
        ("cancelled", ended[OutcomeKind.CANCELLED]),
        ("failed", failed),
    )
    return Bar(parts, title + cancelled)
