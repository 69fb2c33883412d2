"""The records of a page, its link to the next one, and the rows that are made of them.

A small page is parsed as a whole, which is fastest. A large one is read from its file as a stream, record by record,
and its rows go to another file, which limits memory. A second pass looks for the link to the next page, since it may
stand before or after the records.

Null instead of a list means a page without records. A missing list means the same once the source has stored records:
some APIs leave out empty lists. Before that, the path is more likely wrong, and the run fails.
"""

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from itertools import islice
from typing import IO, Any, Final

from ostinato.core.errors import BadAnswer, LeaseLost, OstinatoError, TooMuch
from ostinato.features.sources.calls import RunTable
from ostinato.features.sources.fetch.page import FetchedPage, PermanentFailure, failure
from ostinato.features.sources.rules.definition import OnLimit, Paging, PagingKind, Source, WhenMissing
from ostinato.features.sources.rules.mapping import Mapper, Rejection
from ostinato.features.sources.rules.paging import DoesNotAdvance, PageStep, SeenPage, next_step
from ostinato.features.sources.rules.paths import MISSING, PLACE, find, getter, is_dotted, parts_of
from ostinato.features.sources.rules.requests import HEADER, LAST
from ostinato.features.sources.rules.tables import Cell, Row, RowChanges, WriteMode
from ostinato.features.sources.rules.windows import advance, is_older
from ostinato.outgoing.reply import parse_json

CHUNK: Final = 1000  # records mapped and stored at once
EVENTS: Final = {
    "start_map": {},
    "number": 0,
    "boolean": False,
}  # events of ijson, each with a value of its kind
HINT: Final = "correct the path, or say response.whenMissing: empty"

HasStored = Callable[[], bool]  # True if the source has stored a record


@dataclass(slots=True)
class PageRecords:
    """The records of a page, in chunks that can be read once; afterwards `seen` is complete."""

    chunks: Iterator[list[Any]]
    seen: SeenPage
    whole: list[Any] | None = None  # all records, if they are in memory


def read(page: FetchedPage, source: Source, has_stored: HasStored = lambda: False) -> PageRecords:
    """Find the records of a page; raise BadAnswer if it has another form."""
    if page.is_ignored:
        return PageRecords(iter(()), SeenPage(0), [])
    if page.is_large and _can_stream(source):
        return _streamed(page, source, has_stored)
    return _whole(page, source, has_stored)


def _whole(page: FetchedPage, source: Source, has_stored: HasStored) -> PageRecords:
    page.body.seek(0)
    try:
        document = parse_json(page.body.read(), "The API")
    except (BadAnswer, TooMuch) as error:
        raise page.wrong(str(error)) from None
    if source.is_graphql:
        _require_no_errors(page, getter("errors")(document))
    records = find(source.response.data_path, document)
    if records is None or (records is MISSING and _may_be_missing(source, has_stored)):
        records = []
    if not isinstance(records, list):
        raise page.wrong(_not_a_list(source, records))
    chunks = (records[at : at + CHUNK] for at in range(0, len(records), CHUNK))
    paging = source.paging
    seen = SeenPage(
        len(records),
        _at(paging.has_more_path, document),
        _next(paging, page, records[-1:], lambda path: _at(path, document)),
        page.headers.get("link", ""),
        _at(paging.stop_when, document),
    )
    return PageRecords(chunks, seen, records)


def _next(paging: Paging, page: FetchedPage, last: list[Any], at: Callable[[str], Any]) -> Any:
    """Return the next cursor or URL: from the answer, a header or the last record."""
    path = paging.next_path
    if path.startswith(HEADER):
        return page.headers.get(path.removeprefix(HEADER).lower())
    if path.startswith(LAST):
        return getter(path.removeprefix(LAST))(last[0]) if last else None
    return at(path)


def _require_no_errors(page: FetchedPage, errors: Any) -> None:
    """Raise BadAnswer for the errors of GraphQL, which come with the status 200."""
    if errors:
        raise page.wrong("The API answered with errors.")


def _at(path: str, document: Any) -> Any:
    return getter(path)(document) if path else None


def _may_be_missing(source: Source, has_stored: HasStored) -> bool:
    wanted = source.response.when_missing
    return has_stored() if wanted is None else wanted is WhenMissing.EMPTY


def _not_a_list(source: Source, found: Any) -> str:
    path = source.response.data_path
    what = f"there is nothing; {HINT}" if found is MISSING else f"it is {_kind(found)}, not a list"
    return f"response.dataPath: no records at {path!r}: {what}."


def _kind(value: Any) -> str:
    names = {dict: "an object", str: "a text", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "something else")


# -- large pages


def _can_stream(source: Source) -> bool:
    paging = source.paging
    paths = [source.response.data_path, paging.has_more_path, paging.stop_when]
    paths += [] if paging.next_path.startswith((HEADER, LAST)) else [paging.next_path]
    return all(is_dotted(path) and not any(map(PLACE.fullmatch, parts_of(path))) for path in paths)


def _streamed(page: FetchedPage, source: Source, has_stored: HasStored) -> PageRecords:
    paging = source.paging
    if source.is_graphql:
        _require_no_errors(page, _first(page, "errors.item"))

    def at(path: str) -> Any:
        return _first(page, path) if path else None

    seen = SeenPage(0, at(paging.has_more_path), _next(paging, page, [], at), page.headers.get("link", ""))
    records = PageRecords(iter(()), replace(seen, stop=at(paging.stop_when)))
    records.chunks = _chunks(page, source, records, has_stored)
    return records


def _chunks(page: FetchedPage, source: Source, records: PageRecords, has_stored: HasStored) -> Iterator[list[Any]]:
    count, last = 0, list[Any]()
    items = _items(page, ".".join([*parts_of(source.response.data_path), "item"]))
    while chunk := list(islice(items, CHUNK)):
        count, last = count + len(chunk), chunk[-1:]
        yield chunk
    if not count:
        _require_list(page, source, has_stored)
    following = records.seen.next
    if source.paging.next_path.startswith(LAST):
        following = _next(source.paging, page, last, lambda _: None)
    records.seen = replace(records.seen, records=count, next=following)


def _items(page: FetchedPage, prefix: str) -> Iterator[Any]:
    import ijson  # type: ignore[import-untyped]

    page.body.seek(0)
    try:
        yield from ijson.items(page.body, prefix, use_float=True)
    except (ijson.JSONError, UnicodeDecodeError, ValueError, RecursionError) as error:
        sentence = " ".join(str(error).split())[:200]
        raise page.wrong(f"The API did not answer with JSON: {sentence}.") from None


def _first(page: FetchedPage, path: str) -> Any:
    return next(_items(page, ".".join(parts_of(path))), None)


def _require_list(page: FetchedPage, source: Source, has_stored: HasStored) -> None:
    """Raise BadAnswer unless a page without records has an empty list, null, or a list that may be missing."""
    import ijson

    page.body.seek(0)
    prefix = ".".join(parts_of(source.response.data_path))
    found = next((event for at, event, _ in ijson.parse(page.body) if at == prefix), None)
    if found is None and not _may_be_missing(source, has_stored):
        raise page.wrong(_not_a_list(source, MISSING))
    if found not in (None, "null", "start_array"):
        raise page.wrong(_not_a_list(source, EVENTS.get(found, "")))


MOST_REJECTIONS: Final = 20  # rejected records in the result


@dataclass(frozen=True, slots=True)
class FetchCounters:
    """Counters of a run."""

    pages: int = 0
    requests: int = 0
    bytes: int = 0
    items_crawled: int = 0  # records seen
    items_indexed: int = 0  # inserted and updated rows
    duplicates: int = 0  # another name of `unchanged`
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    rejected: int = 0
    ignored: int = 0  # records marked as deleted that deleted nothing

    def after(self, before: "FetchCounters", written: RowChanges) -> "FetchCounters":
        """Return these counters with the changed rows of before, and more."""
        return replace(
            self,
            items_indexed=before.items_indexed + written.inserted + written.updated,
            duplicates=before.duplicates + written.unchanged,
            inserted=before.inserted + written.inserted,
            updated=before.updated + written.updated,
            unchanged=before.unchanged + written.unchanged,
            deleted=before.deleted + written.deleted,
            ignored=before.ignored + written.ignored,
        )


@dataclass(slots=True)
class Mapped:
    """The rows of a page, before they are stored."""

    step: PageStep
    chunks: Iterable[Sequence[Row]]  # may be iterated several times
    seen: int  # records
    offered: int  # rows made of them; the other records were rejected or ignored
    rejected: list[Rejection]  # the first of them
    limited_by: str = ""  # the limit that cut the page
    following: PageStep | None = None  # the next page
    wait: timedelta | None = None  # the wait that the API asks for
    so_far: FetchCounters = FetchCounters()  # including this page, except for numbers known after storing
    ignored: int = 0
    state: Cell = None  # the new state of the source, if it advances with this page
    files: ExitStack = field(default_factory=ExitStack)  # the files of a large page

    def stored(self, before: FetchCounters, written: RowChanges) -> FetchCounters:
        """Return the counters after this page."""
        return self.so_far.after(before, written.plus(RowChanges(ignored=self.ignored)))


class Spooled:
    """Rows in a file, one chunk on each line."""

    def __init__(self, file: IO[str], digested: bool) -> None:
        self._file, self._digested = file, digested

    def __iter__(self) -> Iterator[list[Row]]:
        self._file.seek(0)
        for line in self._file:
            if self._digested:
                yield [
                    (*cells, digest and bytes.fromhex(digest), bytes.fromhex(of))
                    for *cells, digest, of in json.loads(line)
                ]
            else:
                yield [(*cells, bytes.fromhex(of)) for *cells, of in json.loads(line)]


class PageReader:
    """Reader and mapper of a run's pages, one after the other, on a thread."""

    def __init__(self, source: Source, table: RunTable, began: datetime) -> None:
        self._began = began
        self.rejections: list[Rejection] = []  # the first of them
        self._source, self._table = source, table
        self._mapper, self._digested = Mapper(source), source.target.mode is not WriteMode.INSERT
        self._last: object = None  # the records of the previous page, or their digest
        self._greatest: Cell = None  # the greatest value of the cursor in this page
        names = [column.name for column in source.target.columns]
        asked = source.incremental
        self._cursor = names.index(asked.column.name) if asked is not None and not asked.by_rows else None

    def mapped(self, page: FetchedPage, step: PageStep, before: FetchCounters) -> Mapped:
        """Return the rows of a page and the next step; raise the failure of the run if the page is wrong."""
        try:
            with ExitStack() as files:
                if step.number == 1:
                    self._last = None  # another window may begin with the same page
                records = read(page, self._source, lambda: before.items_crawled > 0 or self._table.has_stored())
                self._require_progress(records, step)
                ignored, self._greatest = self._mapper.ignored, None
                mapped = self._rows(records, step, before, files)
                mapped.ignored = self._mapper.ignored - ignored
                mapped.wait = page.wait
                mapped.following = next_step(self._source.paging, step, records.seen, page.url)
                if self._cursor is not None:
                    self._advance(mapped, step)
                mapped.so_far = self._counted(mapped, page, before)
                mapped.files = files.pop_all()
            return mapped
        except LeaseLost:
            raise
        except OstinatoError as error:
            raise failure(error, step.number) from None
        finally:
            page.close()

    def _advance(self, mapped: Mapped, step: PageStep) -> None:
        """Set the next page of an incremental source, and its new state."""
        asked, window, following = self._source.incremental, step.window, mapped.following
        assert asked is not None
        assert window is not None
        if is_older(asked, window, self._greatest):
            following = None
        seen, both = step.seen + mapped.seen, [each for each in (step.greatest, self._greatest) if each is not None]
        step = replace(step, greatest=max(both, default=None))
        if following is not None:
            following = replace(following, window=window, seen=seen, greatest=step.greatest)
        progress = advance(asked, step, following, seen, self._began)
        mapped.following, mapped.state = progress.following, progress.state

    def _note(self, rows: Sequence[Row]) -> None:
        """Note the greatest value of the cursor."""
        if self._cursor is not None:
            values = [row[self._cursor] for row in rows if row[self._cursor] is not None]
            self._greatest = max([*values, *([self._greatest] if self._greatest is not None else [])], default=None)  # type: ignore[type-var]

    def _require_progress(self, records: PageRecords, step: PageStep) -> None:
        if self._source.paging.kind is PagingKind.NONE or records.whole is None:
            return
        if records.whole and records.whole == self._last:
            raise DoesNotAdvance(f"page {step.number} is the same as the page before it.")
        self._last = records.whole

    def _rows(self, records: PageRecords, step: PageStep, before: FetchCounters, files: ExitStack) -> Mapped:
        if records.whole is None:
            return self._spooled(records, step, before, files)
        rejected: list[Rejection] = []
        given, limited_by = self._cut(records.whole, step, before.items_crawled)
        rows = self._mapper.rows(given, step.number, rejected)
        self._note(rows)
        return Mapped(step, [self._table.pack(rows)], len(given), len(rows), rejected[:MOST_REJECTIONS], limited_by)

    def _spooled(self, records: PageRecords, step: PageStep, before: FetchCounters, files: ExitStack) -> Mapped:
        """Write the rows of a large page to a file: it keeps the transaction short and limits memory."""
        made = tempfile.TemporaryFile("w+", encoding="utf-8", prefix="ostinato-")  # noqa: SIM115
        spool = files.enter_context(made)
        mapped, digest = Mapped(step, Spooled(spool, self._digested), 0, 0, []), blake2b(digest_size=16)
        for chunk in records.chunks:
            given, cut_by = self._cut(chunk, step, before.items_crawled + mapped.seen)
            mapped.limited_by = mapped.limited_by or cut_by
            rows = self._mapper.rows(given, step.number, mapped.rejected, mapped.seen)
            self._note(rows)
            del mapped.rejected[MOST_REJECTIONS:]
            mapped.seen += len(given)
            mapped.offered += len(rows)
            line = json.dumps(rows, default=bytes.hex)  # default: for digest and hash, the last cells
            digest.update(line.encode())
            spool.write(line + "\n")
        if mapped.seen and self._last == digest.digest():
            raise DoesNotAdvance(f"page {step.number} is the same as the page before it.")
        self._last = digest.digest()
        return mapped

    def _cut(self, records: list[Any], step: PageStep, before: int) -> tuple[list[Any], str]:
        """Return the records within limits.maxRecords, and that limit if it cut some."""
        room = self._source.limits.records - before
        if len(records) <= room:
            return records, ""
        name = at_limit(self._source, "limits.maxRecords", f"{self._source.limits.records} records", step)
        return records[: max(room, 0)], name

    def _counted(self, mapped: Mapped, page: FetchedPage, before: FetchCounters) -> FetchCounters:
        rejected = before.rejected + mapped.seen - mapped.offered - mapped.ignored
        crawled = before.items_crawled + mapped.seen
        self.rejections += mapped.rejected[: MOST_REJECTIONS - len(self.rejections)]
        if rejected > self._source.limits.rejected * crawled:
            raise PermanentFailure(self._too_many(rejected, crawled))
        return replace(
            before,
            pages=before.pages + 1,
            requests=before.requests + page.requests,
            bytes=before.bytes + page.size,
            items_crawled=crawled,
            rejected=rejected,
        )

    def _too_many(self, rejected: int, crawled: int) -> str:
        first = "; ".join(str(each) for each in self.rejections[:3])
        return (
            f"{rejected} of {crawled} records were rejected, more than limits.maxRejected allows "
            f"({self._source.limits.rejected:.0%}): {first}"
        )


def at_limit(source: Source, name: str, what: str, step: PageStep) -> str:
    """Return the name of the reached limit if the source stops there; raise PermanentFailure otherwise."""
    if source.limits.then is OnLimit.FAIL:
        raise PermanentFailure(
            f"Page {step.number}: there is more than {name} allows ({what}); what was fetched is stored. "
            "Allow more, or say limits.onLimit: stop."
        )
    return name
