"""JSON schema of a source, for the OpenAPI document. `rules/reading.py` reads sources and sets the bounds."""

from typing import Any, Final

from ostinato.core.auth import FIELDS as AUTH_FIELDS
from ostinato.core.payload import LONGEST_BY_FIELD, LONGEST_WAIT, QUEUE_NAME
from ostinato.core.schedule import LONGEST_PERIOD
from ostinato.core.times import MICROSECOND, SECOND
from ostinato.features.sources.rules.definition import FirstFetch, OnLimit, Order, PagingKind, StopAfter
from ostinato.features.sources.rules.reading import MOST_BYTES, MOST_FIELDS, NAME
from ostinato.features.sources.rules.requests import ActionKind, Method
from ostinato.features.sources.rules.requests_reading import MOST_ACTIONS
from ostinato.features.sources.rules.tables import ColumnType, Deletions, WriteMode
from ostinato.features.sources.rules.words import LARGEST, LONGEST_TEXT
from ostinato.shapes.base import shape
from ostinato.shapes.openapi import ADDRESS, NULL, SCHEDULE, ZONE, Shape, auth, either, nullable, record, span


def _text(longest: int = LONGEST_TEXT, **more: Any) -> Shape:
    """Describe a text; numbers and booleans are read as text."""
    return {"type": ["string", "number", "boolean"], "maxLength": longest, **more}


def _whole(least: int, most: int) -> Shape:
    return {"type": "integer", "minimum": least, "maximum": most}


def _name(pattern: str) -> Shape:
    """Describe a name: a text, or a whole number, because YAML reads 2026 as a number."""
    return either({"type": "string", "pattern": pattern}, {"type": "integer", "minimum": 0, "maximum": LARGEST})


def _fields(fields: dict[str, Shape], *needed: str) -> Shape:
    """Describe an object of a source: an optional field may be null."""
    return record({name: each if name in needed else nullable(each) for name, each in fields.items()}, *needed)


PATH: Final[Shape] = {"type": "string", "format": "json-path", "maxLength": 500}
COLUMN: Final[Shape] = {"type": "string", "format": "column-name"}
WAIT: Final = span(MICROSECOND, LONGEST_WAIT)
TYPE: Final[Shape] = {"enum": list(ColumnType)}
FIELD: Final = either(
    _fields({"source": COLUMN, "type": TYPE, "target": {"const": ""}}, "source"),
    _fields({"source": {**PATH, "minLength": 1}, "target": COLUMN, "type": TYPE}, "source", "target"),
)
RESPONSE: Final = _fields(
    {
        "dataPath": PATH,
        "fields": {"type": "array", "items": FIELD, "minItems": 1, "maxItems": MOST_FIELDS},
        "unique": {"type": "array", "items": COLUMN, "maxItems": MOST_FIELDS},
        "primaryKey": {"type": "array", "items": COLUMN, "maxItems": MOST_FIELDS},
    },
    "fields",
)
PLAIN: Final[Shape] = {"type": ["string", "number", "boolean"]}
MARKED: Final = _fields({"field": {**PATH, "minLength": 1}, "equals": PLAIN}, "field")
WRITE: Final = either(
    {"enum": list(WriteMode)},
    _fields(
        {"mode": {"enum": list(WriteMode)}, "newest": COLUMN, "deletions": either({"enum": list(Deletions)}, MARKED)}
    ),
)
SHARE: Final = either({"type": "string", "format": "percent"}, {"type": "number", "minimum": 0, "maximum": 1})

# -- pages

PARAM: Final = _text(200, minLength=1)
LIMIT: Final = _whole(1, 10_000_000)
LIMITED: Final[dict[str, Shape]] = {"limit": LIMIT, "limitParam": _text(200)}
LAST_PAGE: Final[dict[str, Shape]] = {
    "hasMorePath": PATH,
    "stopWhen": PATH,
    "stopAfter": {"const": StopAfter.EMPTY_PAGE.value},  # short_page requires limit
    "hosts": {"type": "array", "items": _text(300), "maxItems": 20},
}
COUNTED: Final = LIMITED | LAST_PAGE
NUMBERED: Final = COUNTED | {"start": _whole(0, 1_000_000), "pageParam": _text()}
CURSOR: Final = COUNTED | {"cursorParam": PARAM, "nextCursorPath": {**PATH, "minLength": 1}}


def _pages(fields: dict[str, Shape], *needed: str, **kind: Shape) -> Shape:
    """Describe a kind of pagination; limitParam requires limit."""
    bare = {name: each for name, each in fields.items() if name not in LIMITED}
    given = (*kind, *needed)
    return either(
        _fields(kind | fields, *given, "limit"),
        _fields({**kind, **bare, "limitParam": {"const": ""}}, *given),
    )


def _kind(kind: PagingKind) -> dict[str, Shape]:
    return {"type": {"const": kind.value}}


PAGINATION: Final = either(
    record({}),
    record(_kind(PagingKind.NONE), "type"),
    _pages(NUMBERED, **_kind(PagingKind.PAGE)),
    _fields(_kind(PagingKind.OFFSET) | COUNTED | {"offsetParam": PARAM}, "type", "limit", "offsetParam"),
    _fields(
        _kind(PagingKind.OFFSET) | COUNTED | {"offsetParam": {"const": ""}, "pageParam": _text()},
        "type",
        "limit",
    ),
    _pages(CURSOR, "cursorParam", "nextCursorPath", **_kind(PagingKind.CURSOR)),
    _pages(COUNTED | {"nextUrlPath": {**PATH, "minLength": 1}}, "nextUrlPath", **_kind(PagingKind.NEXT_URL)),
    _pages(COUNTED, **_kind(PagingKind.LINK_HEADER)),
)
PAGES: Final = {
    "pagination": PAGINATION,
    "offsetPagination": _pages(NUMBERED),
    "cursorPagination": _pages(CURSOR, "cursorParam", "nextCursorPath"),
}

# -- new records only

BY_ROWS: Final = _fields(
    {
        "from": {"type": "string", "format": "greatest-of-column"},
        "param": PARAM,
        "overlap": either(WAIT, {"type": "number", "minimum": 0}),
        "start": _text(),
    },
    "from",
    "param",
)
BY_STATE: Final = _fields(
    {
        "cursor": COLUMN,
        "startParam": PARAM,
        "endParam": PARAM,
        "start": PLAIN,
        "end": PLAIN,
        "format": _text(100),
        "window": WAIT,
        "lookback": either(WAIT, {"type": "number", "minimum": 0}),
        "splitAt": _whole(1, 10_000_000),
        "order": {"enum": list(Order)},
    },
    "cursor",
    "startParam",
)

# -- requests

STATUS: Final[Shape] = {"type": "integer", "minimum": 100, "maximum": 599}
ACTION: Final = _fields(
    {
        "status": either(STATUS, {"type": "array", "items": STATUS, "minItems": 1, "maxItems": 100}),
        "contains": _text(500),
        "where": PATH,
        "action": {"enum": [ActionKind.IGNORE.value, ActionKind.FAIL.value]},
        "say": _text(500),
    },
    "status",
    "action",
)
BODY: Final = either(
    _fields({"json": {}}, "json"),
    _fields({"form": {"type": "object", "additionalProperties": _text()}}, "form"),
    _fields({"text": _text()}, "text"),
)

# -- the whole

OTHERS: Final[dict[str, Shape]] = {
    "schedule": either(
        {"type": "string", "format": "source-schedule", "maxLength": 200},
        {"type": "number", "minimum": SECOND.total_seconds(), "maximum": LONGEST_PERIOD.total_seconds()},
        *SCHEDULE["anyOf"][1:],
    ),
    "timezone": ZONE,
    "status": _text(100),
    "description": _text(LONGEST_BY_FIELD["description"]),
    "database": {"type": "string", "format": "database-url", "maxLength": 2000},
    "params": {"type": "array", "maxItems": 200, "items": _fields({"name": PARAM, "value": _text()}, "name")},
    "headers": {
        "type": "object",
        "propertyNames": {"format": "header-name"},
        "additionalProperties": nullable(_text(4000, pattern="^[ -~]*$")),
    },
    "auth": auth(*AUTH_FIELDS),
    "incremental": either(BY_ROWS, BY_STATE),
    "method": {"const": Method.POST.value},  # GET has no body
    "body": BODY,
    "graphql": _fields({"query": _text(minLength=1), "variables": {"type": "object"}}, "query"),
    "responseActions": {"type": "array", "items": ACTION, "maxItems": MOST_ACTIONS},
    "write": WRITE,
    "firstRun": {"enum": list(FirstFetch)},
    "limits": _fields(
        {
            "maxPages": _whole(1, 10_000_000),
            "maxBytes": either({"type": "string", "format": "size"}, _whole(1, MOST_BYTES)),
            "maxRecords": _whole(1, 10_000_000_000),
            "maxRejected": SHARE,
            "maxDeleted": SHARE,
            "onLimit": {"enum": list(OnLimit)},
        }
    ),
    "queue": _name(shape(QUEUE_NAME)),
    "priority": _whole(1, 10),
    "tags": {"type": "array", "items": _text(100, minLength=1), "maxItems": 50},
    "owner": _text(LONGEST_BY_FIELD["owner"]),
    "execution": _fields(
        {
            "timeout": WAIT,
            "maxRetries": _whole(0, 1_000_000),
            "retryResetPeriod": WAIT,
            "resume": {"type": "boolean"},
        }
    ),
    "resume": {"type": "boolean"},
}
NEEDED: Final[dict[str, Shape]] = {
    "name": _name(shape(NAME)),
    "url": ADDRESS,
    "table": {"type": "string", "format": "table-name"},
    "response": RESPONSE,
}


def _source(*needed: str) -> Shape:
    """Describe a definition, with at most one kind of pagination."""
    ways = [{"properties": {other: NULL for other in PAGES if other != way}} for way in PAGES]
    return _fields(NEEDED | OTHERS | PAGES, *needed) | either(*ways)


SOURCE: Final = _source(*NEEDED)
REPLACED: Final = _source("url", "table", "response")  # the path contains the name
CHANGED: Final = {**_fields(NEEDED | OTHERS | PAGES, *NEEDED), "required": []}
