"""The overview."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from starlette.responses import Response

from ostinato.core.outcome import OutcomeKind
from ostinato.core.read_models import Hour
from ostinato.core.zones import zone
from ostinato.dashboard import query
from ostinato.dashboard.charts import Bar
from ostinato.dashboard.formatting import many
from ostinato.dashboard.page_request import PageRequest
from ostinato.dashboard.routes import get
from ostinato.dashboard.run_dots import OUTCOMES, hour_bars
from ostinato.service.allowance import allowance

SPANS: Final = {"24h": timedelta(hours=24), "7d": timedelta(days=7)}


def show(visit: PageRequest) -> Response:
    """Show the overview."""
    span = query.one_of(visit, "span", SPANS, "24h")
    found = visit.service.board.overview(SPANS[span], allowance())
    return visit.page(
        "overview.html",
        found=found,
        span=span,
        spans=SPANS,
        bars_by_hour=hour_bars(found.hours, visit.zone),
        most=max((sum(hour.ended.values()) for hour in found.hours if hour.ended), default=0),
        axis=_axis([hour.at for hour in found.hours], visit.zone),
        lately=_lately(found.hours),
        outcomes=OUTCOMES,
        coming=[_quarter(at, count, visit.zone) for at, count in found.coming.counts],
        coming_total=sum(count for _, count in found.coming.counts),
        coming_axis=_axis([at for at, _ in found.coming.counts], visit.zone),
    )


def _axis(starts: Sequence[datetime], name: str, words: int = 5) -> list[str]:
    """Choose evenly spaced times as labels of a chart."""
    chosen = [starts[len(starts) * n // words] for n in range(words)] if starts else []
    long = len(starts) > 48
    return [f"{at.astimezone(zone(name)):{'%a %H:%M' if long else '%H:%M'}}" for at in chosen]


def _quarter(at: datetime, count: int, name: str) -> Bar:
    return Bar((("scheduled", count),), f"{at.astimezone(zone(name)):%H:%M}: {many(count, 'due time')}")


def _lately(hours: Sequence[Hour]) -> dict[str, int]:
    """Sum the counts of all hours."""
    known = [hour.ended for hour in hours if hour.ended is not None]
    completed = sum(ended[OutcomeKind.COMPLETED] for ended in known)
    cancelled = sum(ended[OutcomeKind.CANCELLED] for ended in known)
    return {
        "completed": completed,
        "failed": sum(sum(each.values()) for each in known) - completed - cancelled,
    }


ROUTES: Final = (get("/", show),)
