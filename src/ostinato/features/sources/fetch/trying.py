"""A test of a source: its first page is fetched and mapped, but not stored."""

from dataclasses import dataclass, field
from datetime import datetime

from ostinato.core.errors import OstinatoError
from ostinato.features.sources.fetch.errors import failure
from ostinato.features.sources.fetch.page import ask
from ostinato.features.sources.fetch.reading import read
from ostinato.features.sources.rules.definition import Source
from ostinato.features.sources.rules.mapping import Mapper, Rejection
from ostinato.features.sources.rules.paging import PageStep, Window, next_step
from ostinato.features.sources.rules.tables import Row
from ostinato.features.sources.rules.windows import first_window
from ostinato.outgoing import Credentials, Outgoing

SHOWN_ROWS = 100  # rows and rejections


@dataclass(slots=True)
class Tried:
    """The result of testing the first page of a source."""

    columns: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)  # the first rows, without their hash
    records: int = 0
    distinct: int = 0  # distinct rows
    rejected: list[Rejection] = field(default_factory=list)
    bytes: int = 0
    requests: int = 0
    more: bool = False  # there is a next page


def _first_window(source: Source, now: datetime) -> Window | None:
    """Return what the first run of a source asks for."""
    asked = source.incremental
    if asked is None:
        return None
    return Window(asked.start or None) if asked.by_rows else first_window(asked, None, now)


async def try_source(source: Source, outgoing: Outgoing, now: datetime) -> Tried:
    """Fetch and map one page; raise the same failures as a run."""
    tried = Tried(tuple(each.column.name for each in source.response.fields))
    first = PageStep(window=_first_window(source, now))
    page = await ask(outgoing, source, first, Credentials(source.auth), source.limits.bytes)
    tried.bytes, tried.requests = page.size, page.requests
    hashes = set()
    try:
        records, mapper = read(page, source), Mapper(source)
        for chunk in records.chunks:
            for row in mapper.rows(chunk, first.number, tried.rejected, tried.records):
                hashes.add(row[-1])
                if len(tried.rows) < SHOWN_ROWS:
                    tried.rows.append(row[: len(tried.columns)])
            tried.records += len(chunk)
        tried.distinct = len(hashes)
        tried.more = next_step(source.paging, first, records.seen, page.url) is not None
    except OstinatoError as error:
        raise failure(error, first.number) from None
    finally:
        page.close()
    return tried
