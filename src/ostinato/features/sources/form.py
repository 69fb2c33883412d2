"""The form of a source: its definition field by field. Values without a field stay unchanged."""

import copy
from collections.abc import Mapping
from typing import Any, Final

import yaml

from ostinato.core.errors import Invalid
from ostinato.dashboard.forms import fields
from ostinato.dashboard.forms.fields import (
    AREA,
    CHOICE,
    LIST,
    OPTIONAL,
    TEXT,
    WHOLE,
    Field,
    WidgetKind,
    table,
    value_of,
    written,
)
from ostinato.dashboard.forms.job import Group
from ostinato.shapes.documents import read_json

FIELDS_EXAMPLE: Final = "- {source: date, target: day, type: date}\n- {source: value, target: amount, type: number}"


def _text_or_object(text: str) -> Any:
    return read_json(text) if text.lstrip().startswith("{") else text.strip()


def _params(text: str) -> Any:
    """Read `name=value`, one in each line."""
    pairs = [line.partition("=") for line in text.split("\n") if line.strip()]
    if any(not sign for _, sign, _ in pairs):
        raise Invalid("Write each parameter in a line of its own: name=value.")
    return [{"name": name.strip(), "value": value.strip()} for name, _, value in pairs]


def _headers(text: str) -> Any:
    """Read `Name: value`, one in each line."""
    pairs = [line.partition(":") for line in text.split("\n") if line.strip()]
    if any(not sign for _, sign, _ in pairs):
        raise Invalid("Write each header in a line of its own: Name: value.")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _object(text: str) -> Any:
    """Read JSON or YAML, also the short form {mode: upsert}, which is no JSON."""
    try:
        return fields.read(text)
    except Invalid:
        if not text.lstrip().startswith("{"):
            raise
        return fields.read("- " + text.strip().replace("\n", "\n  "))[0]


SCHEDULE: Final = WidgetKind("line", _text_or_object)
MAPPING: Final = WidgetKind("json", fields.read)
OBJECT: Final = WidgetKind("json", _object)
PARAMS: Final = WidgetKind("area", _params)
HEADERS: Final = WidgetKind("area", _headers)
EXECUTION: Final = "execution"

FIELDS: Final = table(
    Field("name", "Name", TEXT, "Letters, digits and . _ -", needed=True),
    Field("url", "URL", TEXT, "The http or https address of the records.", needed=True),
    Field("table", "Table", TEXT, "The table of the records; it is created if it does not exist.", needed=True),
    Field("schedule", "Schedule", SCHEDULE, "daily · hourly · 30m · 0 9 * * mon-fri", "daily"),
    Field("timezone", "Time zone", OPTIONAL, "For a cron schedule."),
    Field("firstRun", "First run", CHOICE, default="", choices=(
        ("", "default: now"), ("now", "at once"), ("next", "at the first time of the schedule"),
        ("from_rows", "when it is due after its newest row"))),
    Field("status", "Status", CHOICE, "An inactive source never runs.", "active",
          (("active", "active"), ("inactive", "inactive"))),
    Field("description", "Description", AREA),
    Field("response.dataPath", "Path to the records", OPTIONAL, "data.items; . is the root.", "."),
    Field("response.unique", "Unique columns", LIST, "The columns that identify a record.", "all columns"),
    Field("response.fields", "Columns", MAPPING, "For each: source (a path in the record), target (the column), "
          "type (text, integer, number, boolean, timestamp, date, json). As YAML or JSON.", FIELDS_EXAMPLE,
          needed=True),
    Field("write", "Writing", OBJECT, "insert, upsert, replace or history, or more as YAML: "
          "{mode: upsert, deletions: absent}", "insert"),
    Field("params", "Parameters", PARAMS, "name=value, one in each line."),
    Field("headers", "Headers", HEADERS, "Accept: application/json, one in each line. Secrets belong to auth."),
    Field("body", "Body", OBJECT, "As YAML: {json: …}, {form: …} or {text: …}. The requests are then POST.",
          '{json: {status: open}}'),
    Field("graphql", "GraphQL", OBJECT, "As YAML: query, and variables."),
    Field("responseActions", "Answers", MAPPING, "As YAML, for each: status, contains, where; action (ignore, retry, "
          "fail).", "- {status: 404, action: ignore}"),
    Field("pagination.type", "Pagination", CHOICE, "How the API divides its records into pages.", "", (
        ("", "one page"), ("page", "by number"), ("offset", "by offset"), ("cursor", "by a cursor in each answer"),
        ("link_header", "by the header Link"), ("next_url", "by a URL in each answer"), ("none", "none"),
    )),
    Field("pagination.pageParam", "Page parameter", OPTIONAL, default="page"),
    Field("pagination.offsetParam", "Offset parameter", OPTIONAL, default="offset"),
    Field("pagination.cursorParam", "Cursor parameter", OPTIONAL),
    Field("pagination.nextCursorPath", "Path to the next cursor", OPTIONAL),
    Field("pagination.nextUrlPath", "Path to the next URL", OPTIONAL),
    Field("pagination.hasMorePath", "Path to the more-pages flag", OPTIONAL),
    Field("pagination.limitParam", "Page size parameter", OPTIONAL, default="limit"),
    Field("pagination.limit", "Page size", WHOLE),
    Field("pagination.start", "First page number", WHOLE, default="1"),
    Field("auth.type", "Credentials", CHOICE, "Write secrets as references, such as env:SECRET_NAME.", "", (
        ("", "none"), ("bearer", "bearer token"), ("basic", "user and password"), ("header", "a header"),
        ("query", "a parameter"), ("oauth2_client_credentials", "OAuth 2 client"),
    )),
    Field("auth.token", "Token", OPTIONAL, "env:SECRET_NAME"),
    Field("auth.username", "User", OPTIONAL),
    Field("auth.password", "Password", OPTIONAL, "env:SECRET_NAME"),
    Field("auth.name", "Name of the header or parameter", OPTIONAL),
    Field("auth.value", "Value", OPTIONAL, "env:SECRET_NAME"),
    Field("auth.tokenUrl", "Token URL", OPTIONAL),
    Field("auth.clientId", "Client id", OPTIONAL),
    Field("auth.clientSecret", "Client secret", OPTIONAL, "env:SECRET_NAME"),
    Field("auth.scope", "Scope", OPTIONAL),
    Field("incremental.param", "Since parameter", OPTIONAL, "The parameter with the start of new records."),
    Field("incremental.from", "Since value", OPTIONAL, "max(day)"),
    Field("incremental.overlap", "Overlap", OPTIONAL, "1d"),
    Field("incremental.start", "Since value of the first run", OPTIONAL, "2020-01-01"),
    Field(f"{EXECUTION}.timeout", "Timeout", OPTIONAL, "The maximum duration of a run.", "5m"),
    Field("execution.maxRetries", "Failures per period", WHOLE, "The retry budget of a period.", "5"),
    Field("execution.retryResetPeriod", "Period", OPTIONAL, "The budget is full again after it.", "1d"),
    Field("limits.maxPages", "Maximum pages", WHOLE, default="1000"),
    Field("limits.maxBytes", "Maximum bytes", OPTIONAL, "50MB", "50MB"),
    Field("limits.maxRecords", "Maximum records", WHOLE, default="1000000"),
    Field("limits.maxRejected", "Maximum rejected", OPTIONAL, "A share of the records: 10%", "10%"),
    Field("limits.maxDeleted", "Maximum deleted", OPTIONAL, "A share of the rows: 50%", "50%"),
    Field("limits.onLimit", "At a limit", CHOICE, default="", choices=(
        ("", "default: fail"), ("fail", "the run fails"), ("stop", "the run stops and reports it"))),
    Field("database", "Database", OPTIONAL, "The URL of another database, by reference: env:NAME", "Ostinato's own"),
    Field("queue", "Queue", OPTIONAL, default="default"),
    Field("priority", "Priority", WHOLE, "1 (first) to 10.", "5"),
    Field("tags", "Tags", LIST, "Separated by commas."),
    Field("owner", "Owner", TEXT),
)  # fmt: skip

PAGES: Final = tuple(name for name in FIELDS if name.startswith("pagination."))
AUTH: Final = tuple(name for name in FIELDS if name.startswith("auth."))
GROUPS: Final = (
    Group("Columns", ("response.dataPath", "response.unique", "response.fields", "write")),
    Group("Request", ("pagination.type", "auth.type"),
          ("params", "headers", "body", "graphql", "responseActions", *PAGES[1:], *AUTH[1:]),
          "Parameters, headers, body, answers, pagination and credentials"),
    Group("Limits and retries", ("execution.maxRetries", "execution.retryResetPeriod", f"{EXECUTION}.timeout"),
          tuple(name for name in FIELDS if name.startswith(("incremental.", "limits."))),
          "Incremental fetch, limits"),
    Group("Metadata", ("status", "tags"), ("firstRun", "description", "owner", "database", "queue", "priority"),
          "Description, owner, database, queue"),
)  # fmt: skip
BEGINNING: Final[Mapping[str, str]] = {"status": "active", "schedule": "daily"}


def texts_of(definition: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of the form for an existing source."""
    return {name: _shown(name, _inside(definition, name)) for name in FIELDS}


def _shown(name: str, value: Any) -> str:
    match name, value:
        case _, None:
            return "active" if name == "status" else ""
        case "response.fields", list():
            return "\n".join(f"- {_flow(each)}" for each in value)
        case "write" | "body" | "graphql", dict():
            return _flow(value)
        case "responseActions", list():
            return "\n".join(f"- {_flow(each)}" for each in value)
        case "params", list() if all(isinstance(each, dict) for each in value):
            return "\n".join(f"{each.get('name', '')}={each.get('value', '')}" for each in value)
        case "headers", dict():
            return "\n".join(f"{header}: {each}" for header, each in value.items())
        case _:
            return written(value)


def _flow(value: Any) -> str:
    return str(
        yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True, sort_keys=False)
    ).strip()


def _inside(definition: Mapping[str, Any], name: str) -> Any:
    outer, dot, inner = name.partition(".")
    value = definition.get(outer)
    if not dot:
        return value
    return value.get(inner) if isinstance(value, dict) else None


def definition_of(texts: Mapping[str, str], before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the definition from the typed texts: changed fields, and the rest as in `before`."""
    definition = copy.deepcopy(dict(before or {}))
    shown = texts_of(definition)
    for name, one in FIELDS.items():
        text = texts.get(name, "")
        if before is not None and (name not in texts or text == shown[name]):
            continue
        _put(definition, name, value_of(one, text) if text.strip() else None)
    if not _inside(definition, "auth.type"):
        definition.pop("auth", None)
    return definition


def _put(definition: dict[str, Any], name: str, value: Any) -> None:
    outer, dot, inner = name.partition(".")
    if not dot:
        definition.pop(name, None)
        if value is not None:
            definition[name] = value
        return
    inside = definition.get(outer)
    inside = dict(inside) if isinstance(inside, dict) else {}
    inside.pop(inner, None)
    if value is not None:
        inside[inner] = value
    definition.pop(outer, None)
    if inside:
        definition[outer] = inside
