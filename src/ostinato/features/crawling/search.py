"""Pages found by crawls, and their search."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from ostinato.store.database import Row
from ostinato.store.dialect import DatabaseKind
from ostinato.store.rows import from_micros, to_uuid
from ostinato.store.store import Store

COUNTED: Final = 10_000  # the limit of the count
FOUND, FOUND_ENDS = "\x02", "\x03"  # around a word in a snippet; no text of a page contains these
# One minus before a word excludes it; more belong to the word, which is then an option of a program.
ASKED: Final = re.compile(r'(?:(-)(?!-))?-*(?:"([^"]*)"|([^\s-]\S*))')


@dataclass(frozen=True, slots=True)
class CrawledPage:
    """A page in a list."""

    id: int
    job_id: UUID
    url: str
    status: int
    error: str
    content_type: str
    title: str
    description: str
    language: str
    columns: dict[str, Any]
    hash: str
    size: int
    depth: int
    first_seen_at: datetime
    fetched_at: datetime
    changed_at: datetime
    snippet: str  # of its text, with FOUND and FOUND_ENDS around the words


@dataclass(frozen=True, slots=True)
class WholePage:
    """A page with all its stored fields."""

    page: CrawledPage
    text: str
    links: list[str]
    etag: str
    last_modified: str


@dataclass(frozen=True, slots=True)
class PageFilter:
    """A filter of pages. A field that is None matches all."""

    words: str | None = None
    job_id: UUID | None = None
    host: str | None = None


class CrawledPages:
    """Table of pages and the index of their words."""

    def __init__(self, store: Store) -> None:
        self._database = store.database

    def search(self, chosen: PageFilter, limit: int, offset: int) -> tuple[list[CrawledPage], int]:
        """Return a page of results, the best first (without words: the last fetched), and their total."""
        given: dict[str, Any] = {"job": chosen.job_id, "host": chosen.host}
        look, count = "newest_pages", "count_pages"
        if chosen.words is not None:
            given["words"] = self._query(chosen.words)
            look, count = "search_pages", "count_found_pages"
            if not given["words"]:
                return [], 0
        with self._database.read() as tx:
            found = [_page(row) for row in tx.rows(look, limit=limit, offset=offset, **given)]
            total = tx.rows(count, most=COUNTED, **given)[0][0]
        return found, int(total)

    def get(self, page: int) -> WholePage | None:
        with self._database.read() as tx:
            row = tx.row("page_by_id", page=page)
        if row is None:
            return None
        text, links, etag, last_modified = row[16:]
        return WholePage(_page((*row[:16], "")), text, json.loads(links), etag, last_modified)

    def _query(self, words: str) -> str:
        return as_match(words) if self._database.dialect.kind is DatabaseKind.SQLITE else as_web_search(words)


def as_web_search(words: str) -> str:
    """Write words, "phrases" and -without for PostgreSQL's `websearch_to_tsquery`."""
    return " ".join(minus + (word or f'"{phrase}"') for minus, phrase, word in ASKED.findall(words) if word or phrase)


def as_match(words: str) -> str:
    """Write the same for SQLite's FTS5."""
    wanted, unwanted = list[str](), list[str]()
    for minus, phrase, word in ASKED.findall(words):
        text = " ".join(re.findall(r"\w+", phrase or word))
        if text:
            (unwanted if minus else wanted).append(f'"{text}"')
    if not wanted:
        return ""
    return " AND ".join(wanted) + "".join(f" NOT {each}" for each in unwanted)


def _page(row: Row | Sequence[Any]) -> CrawledPage:
    page_id, job_id, *plain, columns, hash_, size, depth, first, fetched, changed, snippet = row
    times = [from_micros(at) for at in (first, fetched, changed)]
    values = [page_id, to_uuid(job_id), *plain, json.loads(columns), hash_, size, depth, *times, snippet]
    return CrawledPage(*values)
