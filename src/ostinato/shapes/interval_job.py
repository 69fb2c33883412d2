"""Fields of a job in the format of seed 003 (the interval scheduler of a crawler), and their conversion.

`url`, `source_id` and `source_name` are the args of those names; a body with a url and no task is a `crawl` job.
`interval_minutes` counts minutes, hours or days, as `interval_type` says. The defaults of the seed apply to these
fields: three retries, then the job has failed.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import Field

from ostinato.core.duration import DAY, HOUR, MINUTE
from ostinato.core.policy import Policies, WhenExhausted
from ostinato.core.schedule import LONGEST_PERIOD, Cron, Every
from ostinato.shapes.base import RequestBody, Switch, Text, Whole, WrongField
from ostinato.shapes.interval_schedule import UNITS, IntervalType
from ostinato.shapes.openapi import CRON, SOMETHING, ZONE, absent, both, either, given, record, says
from ostinato.shapes.own_job import about

CRAWL: Final = "crawl"
SOURCE: Final = ("source_id", "source_name", "url")
DEFAULTS: Final = Policies(max_retries=3, when_exhausted=WhenExhausted.FAIL)
LONGEST_NAME: Final = 255
LONGEST_URL: Final = 2048

Name = Annotated[Text, says(format="printable", minLength=1, maxLength=LONGEST_NAME)]
MOST_PERIODS: Final = {
    "minutes": LONGEST_PERIOD // MINUTE,
    "hours": LONGEST_PERIOD // HOUR,
    "days": LONGEST_PERIOD // DAY,
}
FIELDS: Final = r"^(@[a-z]+|\S+(\s+\S+){4})$"  # a cron expression, as opposed to an interval or an instant
# The ways to write a schedule, for the OpenAPI document: those of seed 003, and ours.
INTERVALS: Final = tuple(
    both(
        given(interval_minutes={"type": "integer", "maximum": most}),
        {"properties": {"interval_type": {"enum": [kind, None] if kind == "minutes" else [kind]}}},
        {"properties": {}, "required": [] if kind == "minutes" else ["interval_type"]},
        absent("schedule", "timezone"),
    )
    for kind, most in MOST_PERIODS.items()
)
WALL_TIMES: Final = both(given(schedule_time=CRON), absent("schedule", "interval_minutes", "interval_type"))
ALONE: Final = absent("interval_minutes", "interval_type", "schedule_time", "schedule_enabled")
OURS: Final = both(given(schedule=SOMETHING), absent("timezone"), ALONE)
ZONED: Final = both(
    given(schedule=either({"type": "string", "pattern": FIELDS}, record({"cron": CRON}, "cron")), timezone=ZONE),
    ALONE,
)
WAYS: Final = (OURS, ZONED, *INTERVALS, WALL_TIMES)


class IntervalWords(RequestBody):
    """Fields of a job in the format of the intervals API."""

    source_id: Name | None = None
    source_name: Name | None = None
    url: Annotated[Text, says(format="http-url", maxLength=LONGEST_URL)] | None = None
    interval_minutes: Annotated[Whole, Field(ge=1, le=100_000_000)] | None = Field(
        None, description="Number of minutes, hours or days (interval_type) between two runs."
    )
    interval_type: IntervalType | None = None
    schedule_time: Annotated[Text, says(**CRON)] | None = Field(
        None,
        description="A cron expression. An interval takes precedence, and stores it for a rollback.",
    )
    schedule_enabled: Switch | None = Field(None, description="false: the job runs once, at once.")
    retry_backoff_seconds: Annotated[Whole, Field(ge=0, le=315_360_000)] | None = None


ONLY_HERE: Final = frozenset(IntervalWords.model_fields)


def every(minutes: int, kind: str) -> Every:
    """Return an interval of minutes, hours or days."""
    with about("interval_minutes"):
        return Every.of(f"{minutes}{UNITS[kind]}")


def cron(expression: str, timezone: str) -> Cron:
    with about("schedule_time"):
        return Cron(expression, timezone)


def check_source(said: Mapping[str, Any]) -> None:
    """Check the URL and the names of a source, without a request to it."""
    if "url" in said:
        _check_url(said["url"])
    for name in said.keys() & {"source_name", "source_id"}:
        _check_name(name, said[name])


def check_crawl(args: Mapping[str, Any]) -> None:
    """Check the args of a crawl, from args or from single fields."""
    if "url" not in args:
        raise WrongField("url", "A crawl needs a url.")
    check_source(args)


def _check_name(name: str, text: object) -> None:
    good = isinstance(text, str) and text.strip() and len(text) <= LONGEST_NAME and text.isprintable()
    if not good:
        raise WrongField(name, f"{name} is a printable text of 1 to {LONGEST_NAME} characters.")


def _check_url(url: object) -> None:
    if not isinstance(url, str) or not _is_web_address(url):
        raise WrongField("url", f"{str(url)[:100]!r} cannot be used: write http:// or https:// and a host.")


def _is_web_address(url: str) -> bool:
    if len(url) > LONGEST_URL or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False
