"""Parts of the OpenAPI document that types do not say: formats, bounds, fields that belong together; instants.

The rules themselves stand in `core`, which refuses a value with a sentence; here stand only their bounds and patterns,
taken from there. `null` counts as left out. tests/rest/schema_hooks.py knows how to make a value of each format.
"""

import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from ostinato.core.addresses import LONGEST_URL
from ostinato.core.auth import FIELDS as AUTH_FIELDS
from ostinato.core.auth import SECRET_FIELDS
from ostinato.core.payload import EARLIEST, LONGEST_WAIT
from ostinato.core.policy import FieldWords
from ostinato.core.schedule import LONGEST_PERIOD
from ostinato.core.times import DAYS, MICROSECOND, SECOND, format_duration

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema


Shape = dict[str, Any]

NULL: Final[Shape] = {"type": "null"}
SOMETHING: Final[Shape] = {"type": ["array", "boolean", "number", "object", "string"]}
SINCE_1900: Final = rf"^({EARLIEST.year // 100}|[2-9][0-9])[0-9]{{2}}-"
INSTANT: Final[Shape] = {"type": "string", "format": "date-time", "pattern": SINCE_1900}
CRON: Final[Shape] = {"type": "string", "format": "cron"}
ZONE: Final[Shape] = {"type": "string", "format": "time-zone"}


def says(**shape: Any) -> Any:
    """Add to the document what `core` checks about a field."""
    from pydantic import Field

    return Field(json_schema_extra=shape)


def span(least: timedelta, most: timedelta) -> Shape:
    """Describe a duration: text or seconds, within bounds."""
    first, last = format_duration(least), format_duration(most)
    return {
        "anyOf": [
            {"type": "string", "format": "span", "formatMinimum": first, "formatMaximum": last},
            {"type": "number", "minimum": least.total_seconds(), "maximum": most.total_seconds()},
        ],
        "description": f"30s, 5m, 1h30m, or seconds; from {first} to {last}",
    }


class Within:
    """Bounds of a duration, for the document."""

    def __init__(self, least: timedelta, most: timedelta = LONGEST_WAIT) -> None:
        self._shape = span(least, most)

    def __get_pydantic_json_schema__(self, _core: "CoreSchema", _handler: "GetJsonSchemaHandler") -> Shape:
        return dict(self._shape)


POSITIVE: Final = Within(MICROSECOND)


def pattern(rule: re.Pattern[str]) -> str:
    """Return a rule for whole texts as a pattern of the document."""
    return f"^({rule.pattern})$"


def record(properties: Mapping[str, Shape], *needed: str) -> Shape:
    """Describe an object with these fields and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(needed),
        "additionalProperties": False,
    }


def given(**fields: Shape) -> Shape:
    """Describe an object in which these fields are there."""
    return {"properties": fields, "required": list(fields)}


def absent(*names: str) -> Shape:
    """Describe an object in which these fields are null or left out."""
    return {"properties": dict.fromkeys(names, NULL)}


def both(*shapes: Shape) -> Shape:
    """Join the fields of several shapes of one object."""
    needed = [name for shape in shapes for name in shape.get("required", ())]
    fields = {name: field for shape in shapes for name, field in shape["properties"].items()}
    return {"properties": fields, **({"required": needed} if needed else {})}


def either(*shapes: Shape) -> Shape:
    return {"anyOf": list(shapes)}


def all_hold(*rules: Shape) -> Callable[[Shape], None]:
    """Make what adds rules about several fields to the schema of a model."""

    def add(schema: Shape) -> None:
        schema["allOf"] = list(rules)

    return add


def never_null(names: Collection[str]) -> Callable[[Shape], None]:
    """Make what tells which fields of a model may be left out, but not be null."""

    def tell(schema: Shape) -> None:
        for name in schema["properties"].keys() & names:
            field = schema["properties"][name]
            kinds = [kind for kind in field.pop("anyOf") if kind != NULL]
            field.update(kinds[0] if len(kinds) == 1 else {"anyOf": kinds})
            field.pop("default", None)

    return tell


def worded(words: Mapping[str, FieldWords]) -> Callable[[Shape], None]:
    """Make what describes the policies among the fields of a model."""

    def describe(schema: Shape) -> None:
        for name in schema["properties"].keys() & words:
            field, about = schema["properties"][name], words[name]
            values = (f"`{each.value}`: {each.words}." for each in about.choices)
            written = field.get("description", "")  # of a duration
            field["description"] = " ".join([about.help, *values, written]).rstrip()

    return describe


SCHEDULE: Final[Shape] = either(
    {"type": "string", "format": "schedule"},
    record({"every": span(SECOND, LONGEST_PERIOD)}, "every"),
    record({"cron": CRON, "timezone": ZONE}, "cron"),
    record({"at": INSTANT}, "at"),
    record({"manual": {"const": True}}, "manual"),
)
RECURRING: Final[Shape] = {"type": "object", "anyOf": [{"required": ["every"]}, {"required": ["cron"]}]}
DAY: Final[Shape] = {"type": "string", "format": "weekday", "description": f"{', '.join(DAYS)}; or mon-fri"}
WINDOW: Final[Shape] = record(
    {
        "days": either({"type": "string", "format": "weekdays"}, {"type": "array", "items": DAY, "minItems": 1}),
        "from": {"type": "string", "format": "time-of-day"},
        "to": {"type": "string", "format": "time-of-day"},
        "timezone": ZONE,
    },
    "from",
    "to",
)
SECRET: Final[Shape] = {"type": "string", "format": "secret-reference", "minLength": 1}
ADDRESS: Final[Shape] = {"type": "string", "format": "http-url", "maxLength": LONGEST_URL}
OF_AUTH: Final[Mapping[str, Shape]] = {
    **dict.fromkeys(SECRET_FIELDS, SECRET),
    "tokenUrl": ADDRESS,
    "scope": {"type": "string"},
}


def nullable(shape: Shape) -> Shape:
    """Describe a value that may be null as well."""
    return either(shape, NULL)


def auth(*kinds: str) -> Shape:
    """Describe the ways to authenticate, by their types."""
    return either(*map(_auth, kinds))


def _auth(kind: str) -> Shape:
    needed, possible = AUTH_FIELDS[kind]
    name: Shape = {"type": "string", "format": "header-name"} if kind == "header" else {"type": "string"}
    fields = {each: OF_AUTH.get(each, {**name, "minLength": 1}) for each in (*needed, *possible)}
    return record({"type": {"const": kind}, **fields}, "type", *needed)


# -- Instants in requests: text with a time zone or an offset


def read_instant(value: object) -> datetime:
    """Read an instant; ValueError says what is wrong with it."""
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        raise ValueError("An instant is text like 2026-11-16T09:00:00Z.")
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{value[:60]!r} is not an instant; write it like 2026-11-16T09:00:00Z.") from None
    if at.utcoffset() is None:
        raise ValueError(f"{value[:60]} has no time zone; end it with Z (UTC) or an offset like +02:00.")
    try:
        found = at.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{value[:60]} goes beyond the calendar.") from None
    if found < EARLIEST:
        raise ValueError(f"{value[:60]} lies before 1900; say a later one.")
    return found
