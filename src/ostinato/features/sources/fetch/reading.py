"""The records of a page, and its link to the next one.

A small page is parsed as a whole, which is fastest. A large one is read from its file as a stream, record by record. A
second pass looks for the link to the next page, since it may stand before or after the records.

Null instead of a list means a page without records. A missing list means the same once the source has stored records:
some APIs leave out empty lists. Before that, the path is more likely wrong, and the run fails.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from ostinato.core.errors import BadAnswer, TooMuch
from ostinato.features.sources.fetch.page import FetchedPage
from ostinato.features.sources.rules.definition import PagingKind, Source, WhenMissing
from ostinato.features.sources.rules.paging import SeenPage
from ostinato.features.sources.rules.paths import MISSING, PLACE, find, getter, is_dotted, parts_of
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
    if page.is_large and _can_stream(source):
        return _streamed(page, source, has_stored)
    return _whole(page, source, has_stored)


def _whole(page: FetchedPage, source: Source, has_stored: HasStored) -> PageRecords:
    page.body.seek(0)
    try:
        document = parse_json(page.body.read(), "The API")
    except (BadAnswer, TooMuch) as error:
        raise page.wrong(str(error)) from None
    records = find(source.response.data_path, document)
    if records is None or (records is MISSING and _may_be_missing(source, has_stored)):
        records = []
    if not isinstance(records, list):
        raise page.wrong(_not_a_list(source, records))
    chunks = (records[at : at + CHUNK] for at in range(0, len(records), CHUNK))
    seen = SeenPage(len(records), _at(source.paging.has_more_path, document), _at(source.paging.next_path, document))
    return PageRecords(chunks, SeenPage(seen.records, seen.more, seen.next, page.link), records)


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
    paths = [source.response.data_path, source.paging.has_more_path, source.paging.next_path]
    return all(is_dotted(path) and not any(map(PLACE.fullmatch, parts_of(path))) for path in paths)


def _streamed(page: FetchedPage, source: Source, has_stored: HasStored) -> PageRecords:
    paging = source.paging
    asked = paging.has_more_path or paging.next_path
    found = _first(page, asked) if asked and paging.kind is not PagingKind.LINK_HEADER else None
    more, following = (found, None) if paging.has_more_path else (None, found)
    records = PageRecords(iter(()), SeenPage(0, more, following, page.link))
    records.chunks = _chunks(page, source, records, has_stored)
    return records


def _chunks(page: FetchedPage, source: Source, records: PageRecords, has_stored: HasStored) -> Iterator[list[Any]]:
    count = 0
    items = _items(page, ".".join([*parts_of(source.response.data_path), "item"]))
    while chunk := list(islice(items, CHUNK)):
        count += len(chunk)
        yield chunk
    if not count:
        _require_list(page, source, has_stored)
    seen = records.seen
    records.seen = SeenPage(count, seen.more, seen.next, seen.link)


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
