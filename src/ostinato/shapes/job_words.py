"""A job that comes in: our own words, and those of seed 003 (the interval scheduler of a crawler)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema

from ostinato.core.checks import LONGEST_PATH
from ostinato.core.errors import Invalid
from ostinato.core.model import Definition
from ostinato.core.payload import LONGEST_BY_FIELD, LONGEST_TAG, LONGEST_WAIT, QUEUE_NAME, encode
from ostinato.core.policy import (
    BACKOFF_WORDS,
    POLICY_WORDS,
    Backoff,
    BackoffKind,
    CatchUp,
    FirstRun,
    OnLost,
    Overlap,
    Policies,
    WhenExhausted,
)
from ostinato.core.schedule import LONGEST_PERIOD, Cron, Every, Once, Schedule, from_json, parse_schedule
from ostinato.core.times import DAY, HOUR, MINUTE, Window
from ostinato.core.trace import stored
from ostinato.shapes.base import Duration, Instant, RequestBody, Span, Switch, Text, Whole, WrongField
from ostinato.shapes.job_answer import UNITS, IntervalType
from ostinato.shapes.openapi import (
    CRON,
    POSITIVE,
    SCHEDULE,
    SOMETHING,
    WINDOW,
    ZONE,
    Shape,
    absent,
    both,
    either,
    given,
    pattern,
    record,
    says,
    span,
    worded,
)

# -- A job in our own words, coming in

Count = Annotated[Whole, Field(ge=0, le=1_000_000_000)]
Limit = Annotated[Whole, Field(ge=1, le=100_000_000)]
Some = Annotated[Duration, POSITIVE]
Zone = Annotated[Text, says(**ZONE)]
ArgName = Annotated[Text, says(pattern=r"^[^.]+(\.[\s\S]+)?$", maxLength=LONGEST_PATH)]
ScheduleWords = Annotated[dict[str, Any] | Text, WithJsonSchema(SCHEDULE)]


def _upto(field: str, least: int = 0) -> Any:
    """Tell how long a text of a job may be."""
    return says(maxLength=LONGEST_BY_FIELD[field], **({"minLength": least} if least else {}))


OTHERWISE: Final = [kind.value for kind in BackoffKind if kind is not BackoffKind.STEPS]


def _backoff_words(schema: Shape) -> None:
    """Describe the fields; tell that a backoff by steps has steps; steps without a kind are one too."""
    worded(BACKOFF_WORDS)(schema)
    schema.update(
        either(
            given(steps={"type": "array", "minItems": 1}),
            given(kind={"enum": OTHERWISE}),
            both(absent("steps"), {"properties": {"kind": {"enum": [*OTHERWISE, None]}}}),
        )
    )


class BackoffWords(RequestBody):
    """The delays between attempts."""

    model_config = ConfigDict(json_schema_extra=_backoff_words)

    kind: BackoffKind | None = None
    base: Span | None = None
    cap: Span | None = None
    factor: Annotated[float, Field(ge=1, le=1000, strict=True)] | None = None
    steps: list[Span] | None = None
    jitter: Annotated[float, Field(ge=0, le=1, strict=True)] | None = None
    never_retry: list[Text] | None = None


def _backoff_object(given: object) -> object:
    """A duration alone is the base, a list of them are the steps."""
    match given:
        case str() | int() | float():
            return {"base": given}
        case list():
            return {"steps": given}
        case _:
            return given


class _OrShorter:
    """The short forms of a backoff, for the document."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> Shape:
        delay = span(timedelta(0), LONGEST_WAIT)
        return either(handler(core), delay, {"type": "array", "items": delay, "minItems": 1})


class OurWords(RequestBody):
    """Fields of a job in our words; null means left out, except where it means "none"."""

    task: Annotated[Text, says(format="task", minLength=1, maxLength=LONGEST_BY_FIELD["task"])] | None = Field(
        None, description="The name of a task that a worker knows; any name with allow_unknown."
    )
    args: dict[str, Any] | None = None
    schedule: ScheduleWords | None = Field(
        None,
        description='{"every": "6h"}, {"cron": "0 9 * * *", "timezone": "Europe/Paris"}, '
        '{"at": "2026-11-16T09:00:00Z"}, {"manual": true}, or text: 30m, @daily, now, manual',
    )
    timezone: Zone | None = None
    key: Annotated[Text, _upto("key", 1)] | None = None
    name: Annotated[Text, _upto("name")] | None = None
    description: Annotated[Text, _upto("description")] | None = None
    queue: Annotated[Text, says(pattern=pattern(QUEUE_NAME))] | None = None
    priority: Annotated[Whole, Field(ge=1, le=10)] | None = None
    tags: Annotated[list[Annotated[Text, says(minLength=1, maxLength=LONGEST_TAG)]], Field(max_length=50)] | None = None
    metadata: dict[str, Any] | None = None
    owner: Annotated[Text, _upto("owner")] | None = None
    first_run: FirstRun | None = None
    start_at: Instant | None = None
    end_at: Instant | None = None
    fixed_delay: Switch | None = None
    total_repeats: Count | None = None
    window: Annotated[dict[str, Any], WithJsonSchema(WINDOW)] | None = None
    jitter: Span | None = None
    catch_up: CatchUp | None = None
    late_after: Span | None = None
    catch_up_limit: Annotated[Whole, Field(ge=1, le=10_000)] | None = None
    catch_up_within: Span | None = None
    overlap: Overlap | None = None
    max_overlap: Annotated[Whole, Field(ge=1, le=1000)] | None = None
    max_retries: Count | None = None
    backoff: Annotated[BackoffWords, BeforeValidator(_backoff_object), _OrShorter()] | None = None
    retry_reset_period: Some | None = None
    when_exhausted: WhenExhausted | None = None
    on_lost: OnLost | None = None
    timeout: Some | None = None
    keep_executions: Annotated[Whole, Field(ge=1, le=10_000)] | None = None
    keep_days: Annotated[Whole, Field(ge=0, le=36_500)] | None = None
    max_concurrency: Annotated[Whole, Field(ge=1, le=1_000_000)] | None = None
    concurrency_key: Annotated[Text, says(format="concurrency-key")] | None = None
    rate_limit: Annotated[Text, says(format="rate")] | None = None
    after: Annotated[Text, Field(min_length=1, max_length=200)] | None = None
    cpu_limit: Some | None = None
    memory_limit_mb: Limit | None = None
    open_files_limit: Limit | None = None
    output_limit_mb: Limit | None = None
    run_args: Annotated[list[ArgName], Field(max_length=50)] | None = None

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> Shape:
        """Add the descriptions of the policies."""
        schema = super().__get_pydantic_json_schema__(core, handler)
        worded(POLICY_WORDS)(handler.resolve_ref_schema(schema))
        return schema


MAY_BE_NONE: Final = frozenset({"key", *(each.name for each in fields(Policies) if each.default is None)})
TEXTS: Final = ("task", "key", "name", "description", "queue", "priority", "owner", "app")


def changed(definition: Definition, said: Mapping[str, Any]) -> Definition:
    """The definition with what was said, in values of ours; `schedule` is a Schedule by now."""
    given: dict[str, Any] = {name: said[name] for name in (*TEXTS, "schedule") if name in said}
    if "args" in said:
        given["args"] = encode(said["args"], "args")
    if "metadata" in said:
        with about("metadata"):
            given["metadata"] = stored(said["metadata"], definition.metadata)
    if "tags" in said:
        given["tags"] = tuple(said["tags"])
    return replace(definition, **given, policies=_policies(definition.policies, said))


def schedule_of(words: Mapping[str, Any] | str, timezone: str, now: datetime) -> Schedule:
    """The schedule that somebody wrote; a cron without a zone is in ours."""
    with about("schedule"):
        if isinstance(words, str):
            return Once(now) if words.strip().lower() == "now" else parse_schedule(words, timezone)
        if words.keys() == {"cron"}:
            return from_json({**words, "timezone": timezone})
        return from_json(words)


def zoned(schedule: Schedule, timezone: str) -> Schedule:
    """The same wall times in another zone."""
    if not isinstance(schedule, Cron):
        raise WrongField("timezone", "Only a cron schedule has a time zone; intervals count real time.")
    with about("timezone"):
        return Cron(schedule.expression, timezone)


@contextmanager
def about(field: str) -> Iterator[None]:
    """Attribute errors inside to this field."""
    try:
        yield
    except WrongField:
        raise
    except Invalid as error:
        raise WrongField(field, str(error)) from None


def _policies(policies: Policies, said: Mapping[str, Any]) -> Policies:
    given = {name: said[name] for name in POLICY_WORDS.keys() & said.keys() - {"window", "backoff"}}
    if "run_args" in said:
        given["run_args"] = tuple(said["run_args"])
    if "window" in said:
        with about("window"):
            given["window"] = None if said["window"] is None else Window.from_json(said["window"])
    if "backoff" in said:
        with about("backoff"):
            given["backoff"] = _backoff(policies.backoff, said["backoff"])
    return replace(policies, **given)


def _backoff(backoff: Backoff, words: BackoffWords) -> Backoff:
    given = words.said()
    if "jitter" in given:
        given["spread"] = given.pop("jitter")
    for name in given.keys() & {"steps", "never_retry"}:
        given[name] = tuple(given[name])
    if "steps" in given and "kind" not in given:
        given = {"kind": BackoffKind.STEPS, "cap": max(given["steps"], default=backoff.cap)} | given
    if given.keys() & {"kind", "base", "cap", "steps"}:
        given["within_period"] = False
    return replace(backoff, **given)


# -- Fields of a job in the format of seed 003 (the interval scheduler of a crawler), and their conversion.
#
# `url`, `source_id` and `source_name` are the args of those names; a body with a url and no task is a `crawl` job.
# `interval_minutes` counts minutes, hours or days, as `interval_type` says. The defaults of the seed apply to these
# fields: three retries, then the job has failed.

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
