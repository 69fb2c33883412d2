"""The reader of definitions of sources. Invalid names the wrong field."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from ostinato.core.addresses import EVERYWHERE, Egress, check_url
from ostinato.core.auth import REFERENCE, check_header_name, check_reference, header_flaw, parse_auth
from ostinato.core.errors import Invalid
from ostinato.core.payload import LONGEST_WAIT, check_queue_name
from ostinato.core.schedule import Every, Schedule, from_json, parse_schedule
from ostinato.core.times import HOUR
from ostinato.core.times import zone as known_zone
from ostinato.features.sources.rules.databases import ServerDatabase, read_database
from ostinato.features.sources.rules.definition import (
    ACTIVE,
    ROOT,
    FirstFetch,
    Incremental,
    Limits,
    MappedField,
    OnLimit,
    Order,
    Response,
    RunSettings,
    Source,
    WhenMissing,
)
from ostinato.features.sources.rules.paths import check_path
from ostinato.features.sources.rules.requests import HEADER, ActionKind, check_place
from ostinato.features.sources.rules.requests_reading import GONE, read_actions, read_paging, read_request
from ostinato.features.sources.rules.tables import (
    VALID_FROM,
    VALID_TO,
    Cell,
    ColumnType,
    Deletions,
    MappedColumn,
    Marked,
    Write,
    WriteMode,
    check_column_name,
    check_table_name,
)
from ostinato.features.sources.rules.windows import DAY, SHORTEST, TIMES, check_date_format, read_cell
from ostinato.features.sources.rules.words import ObjectReader, span_of, text_of

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
WORDS: Final = {"hourly": HOUR, "daily": 24 * HOUR, "weekly": 7 * 24 * HOUR}
INTERVAL: Final = "interval:"
GREATEST: Final = re.compile(r"max\(\s*([A-Za-z_][A-Za-z0-9_]*)\s*\)")
PASSWORD: Final = re.compile(r"[a-z]+://[^/]*:[^/]*@|[?&](?:password|passfile)=", re.IGNORECASE)
MOST_FIELDS: Final = 500
MOST_BYTES: Final = 1_000_000_000_000


def read_source(given: object, timezone: str = "UTC", *, egress: Egress = EVERYWHERE) -> Source:
    """Read a source from plain values; `timezone` is for schedules that name none."""
    words = ObjectReader(given)
    name = _name(words)  # missing fields are named in the order in which people write them
    url = check_url(words.needed_text("url"), "url", egress)
    words.needed("table")
    table = check_table_name(words.name("table"))
    if not words.has("response"):
        raise words.missing("response", "it names the place of the records and the columns of their values")
    write = _write(words)
    response = _response(words.inner("response"), write)
    method, body = read_request(words)
    source = Source(
        name=name,
        url=url,
        table=table,
        response=response,
        schedule=_schedule(words, timezone),
        status=words.text("status", ACTIVE, 100) or ACTIVE,
        description=words.text("description"),
        database=_database(words, egress),
        params=_params(words),
        headers=_headers(words.inner("headers")),
        method=method,
        body=body,
        is_graphql=words.has("graphql"),
        actions=read_actions(words),
        auth=parse_auth(words.any("auth")) if words.has("auth") else None,
        paging=read_paging(words),
        incremental=_incremental(words, response),
        limits=_limits(words.inner("limits"), write),
        write=write,
        first_run=FirstFetch(words.choice(_spelt(words, "firstRun", "first_run"), list(FirstFetch), FirstFetch.NOW)),
        queue=_queue(words),
        priority=words.whole("priority", 5, 1, 10),
        tags=tuple(text_of(each, where, 100) for where, each in words.items("tags", 50)),
        owner=words.text("owner", longest=200),
        execution=_execution(words),
        written=dict(given) if isinstance(given, Mapping) else {},
    )
    words.no_more()
    _check_write(source)
    _check_places(source)
    return source


def _name(words: ObjectReader) -> str:
    words.needed("name")
    name = words.name("name")
    if not NAME.fullmatch(name):
        raise Invalid(f"name must be letters, digits and . _ -, at most 100, not {name[:80]!r}.")
    return name


def _schedule(words: ObjectReader, timezone: str) -> Schedule:
    written, zone = words.any("schedule"), words.text("timezone", timezone)
    try:
        known_zone(zone)
        if written is None:
            return Every(WORDS["daily"])
        if isinstance(written, Mapping):
            return from_json(
                {**written, "timezone": zone} if "cron" in written and "timezone" not in written else written
            )
        text = text_of(written, "schedule", 200).strip()
        if text.lower() in WORDS:
            return Every(WORDS[text.lower()])
        if text.lower().startswith(INTERVAL):
            return Every.of(text[len(INTERVAL) :].strip())
        return parse_schedule(text, zone)
    except Invalid as error:
        raise Invalid(f"schedule: {error}") from None


def _database(words: ObjectReader, egress: Egress) -> str:
    database = words.text("database", longest=2000)
    if not database:
        return ""
    if REFERENCE.fullmatch(database):
        return check_reference(database, "database")
    if not database.startswith(("sqlite:///", "postgresql://", "postgres://")):
        raise Invalid(
            "database must be a URL (sqlite:///file.db, postgresql://host/database), or a reference to one: "
            "env:SECRET_NAME or file:/run/secrets/NAME."
        )
    if PASSWORD.search(database):
        raise Invalid("database must not hold a password: store the URL at env:SECRET_NAME or file:/run/secrets/NAME.")
    read = read_database(database)
    if isinstance(read, ServerDatabase):
        read.check(egress)
    return database


def _params(words: ObjectReader) -> tuple[tuple[str, str], ...]:
    found = []
    for where, each in words.items("params", 200):
        param = ObjectReader(each, where)
        found.append((param.needed_text("name", 200), param.text("value")))
        param.no_more()
    return tuple(found)


def _headers(words: ObjectReader) -> tuple[tuple[str, str], ...]:
    found = []
    for name in list(words._given):
        value = words.text(name, longest=4000)
        header = check_header_name(str(name), words.path(str(name)))
        flaw = header_flaw(header)
        if flaw is None and header.lower() == "accept-encoding":
            flaw = "is set by Ostinato: leave it out."
        if flaw is not None:
            raise Invalid(f"headers.{header} {flaw}")
        if not value.isascii() or not value.isprintable():
            raise Invalid(f"headers.{header} must be printable ASCII.")
        found.append((header, value))
    return tuple(found)


def _spelt(words: ObjectReader, name: str, other: str) -> str:
    """Return the spelling that a definition uses."""
    if words.has(other) and words.has(name):
        raise Invalid(f"{words.path(other)} and {words.path(name)} mean the same: leave one out.")
    return other if words.has(other) else name


def _write(words: ObjectReader) -> Write:
    """Read the word of a mode, or an object with more."""
    modes = list(WriteMode)
    if not isinstance(words.any("write"), Mapping):
        return Write(WriteMode(words.choice("write", modes, WriteMode.INSERT)))
    inner = words.inner("write")
    write = Write(
        WriteMode(inner.choice("mode", modes, WriteMode.INSERT)), inner.text("newest", longest=100), _deletions(inner)
    )
    inner.no_more()
    return write


def _deletions(words: ObjectReader) -> Deletions | Marked:
    if not isinstance(words.any("deletions"), Mapping):
        return Deletions(words.choice("deletions", list(Deletions), Deletions.KEEP))
    inner = words.inner("deletions")
    field = check_path(inner.needed_text("field", 500), inner.path("field"))
    equals = inner.any("equals")
    if isinstance(equals, Mapping | list | tuple):
        raise Invalid(f"{inner.path('equals')} must be a text, a number, true, false or null.")
    inner.no_more()
    return Marked(field, equals)


def _check_write(source: Source) -> None:
    """Refuse modes and other words of a definition that do not go together."""
    mode, response, columns = source.write.mode, source.response, {each.name: each for each in source.target.columns}
    if mode in (WriteMode.UPSERT, WriteMode.HISTORY) and not response.key:
        raise Invalid(
            f"response.primaryKey is missing: {mode} needs it to know a record again. "
            f"Name the columns that identify one, such as [{next(iter(columns))}]."
        )
    if mode is WriteMode.HISTORY:
        for name in columns:
            if name.lower() in (VALID_FROM, VALID_TO):
                raise Invalid(f"response.fields: history writes {name} itself: choose another target.")
    _check_newest(source, columns)
    if source.write.deletions is Deletions.ABSENT and mode not in (WriteMode.UPSERT, WriteMode.HISTORY):
        what = "replace deletes these records by itself" if mode is WriteMode.REPLACE else "insert deletes no rows"
        raise Invalid(f"write.deletions: absent goes with upsert and history; {what}.")
    if source.target.is_staged:
        what = "write: replace" if mode is WriteMode.REPLACE else "write.deletions: absent"
        if source.incremental is not None:
            raise Invalid(f"{what} needs all records in each run, so it cannot be used with incremental.")
        if source.limits.then is OnLimit.STOP:
            raise Invalid(f"{what} needs all records in each run, so it cannot be used with limits.onLimit: stop.")
        for action in source.actions:
            if action.action is ActionKind.IGNORE and not action.statuses & GONE:
                raise Invalid(f"{what} needs all records in each run: of the statuses only 404 and 410 can be ignored.")
        if source.limits.rejected:
            raise Invalid(f"{what} needs all records in each run, so limits.maxRejected must be 0.")


def _check_places(source: Source) -> None:
    """Refuse values for a body that the source does not have."""
    paging, asked = source.paging, source.incremental
    places = {"pagination": paging.param, "pagination.limitParam": paging.limit_param}
    if asked is not None:
        places |= {"incremental.startParam": asked.param, "incremental.endParam": asked.end_param}
    for what, place in places.items():
        check_place(place, source.body, what)


def _check_newest(source: Source, columns: Mapping[str, MappedColumn]) -> None:
    newest = source.write.newest
    if not newest:
        return
    if source.write.mode not in (WriteMode.UPSERT, WriteMode.HISTORY):
        raise Invalid("write.newest goes with upsert and history: other modes do not compare versions.")
    if newest not in columns:
        raise Invalid(f"write.newest: {newest!r} is not a target column; there are {', '.join(columns)}.")
    ordered = (*TIMES, ColumnType.INTEGER, ColumnType.NUMBER)
    if columns[newest].type not in ordered:
        raise Invalid(f"write.newest: {newest} must be of the type {', '.join(ordered)}, not {columns[newest].type}.")


def _response(words: ObjectReader, write: Write) -> Response:
    data_path = check_path(words.text("dataPath", ROOT, 500) or ROOT, "response.dataPath")
    fields = tuple(_field(ObjectReader(each, where)) for where, each in words.items("fields", MOST_FIELDS))
    if not fields:
        raise words.missing("fields", "it lists the values and their columns")
    names = [each.column.name for each in fields]
    for name in names:
        if sum(name.lower() == other.lower() for other in names) > 1:
            raise Invalid(f"response.fields: two fields go to the column {name}.")
    key, is_primary = _key(words, names)
    when_missing = words.choice("whenMissing", list(WhenMissing), "")
    words.no_more()
    return Response(
        data_path,
        fields,
        key or tuple(names),
        key,
        bool(key) and (is_primary or write.mode is not WriteMode.INSERT),
        WhenMissing(when_missing) if when_missing else None,
    )


def _key(words: ObjectReader, names: list[str]) -> tuple[tuple[str, ...], bool]:
    """Read the columns that identify a record, and whether they are called primary key."""
    given = [name for name in ("unique", "primaryKey", "primary_key") if words.has(name)]
    if len(given) > 1:
        raise Invalid(f"{words.path(given[1])} and {words.path(given[0])} mean the same: leave one out.")
    if not given:
        return (), False
    key = tuple(text_of(each, where, 100) for where, each in words.items(given[0], MOST_FIELDS))
    for name in key:
        if name not in names:
            raise Invalid(f"{words.path(given[0])}: {name!r} is not a target column; there are {', '.join(names)}.")
    return key, given[0] != "unique"


def _field(words: ObjectReader) -> MappedField:
    source = check_path(words.needed_text("source", 500), words.path("source"))
    kind = ColumnType(words.choice("type", list(ColumnType), ColumnType.TEXT))
    target = words.name("target") or source
    name = check_column_name(target, words.path("target" if words.has("target") else "source"))
    words.no_more()
    return MappedField(source, MappedColumn(name, kind))


def _incremental(words: ObjectReader, response: Response) -> Incremental | None:
    if not words.has("incremental"):
        return None
    inner = words.inner("incremental")
    columns = {each.column.name: each.column for each in response.fields}
    if inner.has("cursor"):
        found = _by_state(inner, columns)
    else:
        written = inner.needed_text("from", 200)
        match = GREATEST.fullmatch(written.strip())
        if match is None or match[1] not in columns:
            known = ", ".join(columns)
            raise Invalid(f"incremental.from must be max(column) with one of {known}, not {written[:80]!r}.")
        column = columns[match[1]]
        found = Incremental(
            inner.needed_text("param", 200), column, _overlap(inner.any("overlap"), column), inner.text("start")
        )
    inner.no_more()
    return found


def _by_state(words: ObjectReader, columns: Mapping[str, MappedColumn]) -> Incremental:
    """Read an incremental fetch that saves how far it has read."""
    cursor = words.needed_text("cursor", 200)
    column = columns.get(cursor)
    if column is None:
        raise Invalid(f"incremental.cursor: {cursor!r} is not a target column; there are {', '.join(columns)}.")
    if column.type in (ColumnType.BOOLEAN, ColumnType.JSON):
        raise Invalid(f"incremental.cursor: {cursor} is of the type {column.type}, which has no order.")
    found = Incremental(
        _place(words, "startParam"),
        column,
        _overlap(words.any("lookback"), column, "incremental.lookback"),
        by_rows=False,
        end_param=_place(words, "endParam") if words.has("endParam") else "",
        format=check_date_format(words.text("format", longest=100), words.path("format")),
        window=words.span("window", timedelta(0)) or None,
        split_at=words.whole("splitAt", 0, 1, 10_000_000) or None,
        order=Order(words.choice("order", list(Order), Order.NONE)),
    )
    start, end = _bound(words, "start", found), _bound(words, "end", found)
    found = replace(found, start_cell=start, end_cell=end)
    _check_windows(found)
    return found


def _place(words: ObjectReader, name: str) -> str:
    """Read the place of a value in a request: a parameter, or `header:NAME`."""
    place = words.needed_text(name, 200)
    if place.startswith(HEADER):
        header = check_header_name(place.removeprefix(HEADER), words.path(name))
        if (flaw := header_flaw(header)) is not None:
            raise Invalid(f"{words.path(name)}: {header} {flaw}")
    return place


def _bound(words: ObjectReader, name: str, incremental: Incremental) -> Cell:
    value = words.any(name)
    try:
        return None if value is None else read_cell(value, incremental)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise Invalid(f"{words.path(name)}: {error}") from None


def _check_windows(found: Incremental) -> None:
    is_time = found.column.type in TIMES
    for name, value in {"window": found.window, "splitAt": found.split_at, "end": found.end_cell}.items():
        if value is not None and not found.end_param:
            raise Invalid(f"incremental.{name} needs endParam, the parameter for the end of a window.")
    if (found.window or found.split_at) and not is_time:
        raise Invalid(f"incremental: windows need a cursor of the type {' or '.join(TIMES)}.")
    if (found.window or found.split_at) and found.start_cell is None:
        raise Invalid("incremental.start is missing: windows need a beginning.")
    if found.window is not None and found.window < (DAY if found.column.type is ColumnType.DATE else SHORTEST):
        raise Invalid("incremental.window must be at least a second, and a day for a cursor of the type date.")
    if found.end_param and not is_time and found.end_cell is None:
        raise Invalid("incremental.end is missing: only times have an end by themselves, the beginning of a run.")
    if found.format and not is_time:
        raise Invalid(f"incremental.format is for times; {found.column.name} is of the type {found.column.type}.")


def _overlap(written: Any, column: MappedColumn, what: str = "incremental.overlap") -> timedelta | float | None:
    if written is None:
        return None
    if column.type in TIMES:
        return span_of(written, what)
    numeric = column.type in (ColumnType.INTEGER, ColumnType.NUMBER)
    if numeric and isinstance(written, int | float) and not isinstance(written, bool) and written >= 0:
        return float(written)
    raise Invalid(f"{what}: {column.name} is of the type {column.type}, from which {written!r} cannot be taken.")


def _limits(words: ObjectReader, write: Write) -> Limits:
    whole = write.mode is WriteMode.REPLACE or write.deletions is Deletions.ABSENT
    usual = Limits(rejected=0.0) if whole else Limits()
    found = Limits(
        words.whole("maxPages", usual.pages, 1, 10_000_000),
        words.size("maxBytes", usual.bytes, MOST_BYTES),
        words.whole("maxRecords", usual.records, 1, 10_000_000_000),
        words.share("maxRejected", usual.rejected),
        words.share("maxDeleted", usual.deleted),
        OnLimit(words.choice("onLimit", list(OnLimit), usual.then)),
    )
    words.no_more()
    return found


def _execution(words: ObjectReader) -> RunSettings:
    inner, usual = words.inner("execution"), RunSettings()
    found = RunSettings(
        inner.span("timeout", usual.timeout),
        inner.whole("maxRetries", usual.max_retries, 0, 1_000_000),
        inner.span("retryResetPeriod", usual.reset_period),
        inner.switch("resume", words.switch("resume")),
    )
    for name, value in {"timeout": found.timeout, "retryResetPeriod": found.reset_period}.items():
        if not timedelta(0) < value <= LONGEST_WAIT:
            raise Invalid(f"execution.{name} must be longer than 0 s and at most ten years.")
    inner.no_more()
    return found


def _queue(words: ObjectReader) -> str:
    queue = words.name("queue", "default")
    try:
        check_queue_name(queue)
    except Invalid as error:
        raise Invalid(f"queue: {error}") from None
    return queue
