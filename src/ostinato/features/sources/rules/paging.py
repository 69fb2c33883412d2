"""Pagination: the next page, and the end.

A step holds the parameters that the next request adds to the URL of the source. It is made from the step before and
from the answer: its number of records, its next cursor or URL, and its value at `hasMorePath`.

The value at `hasMorePath`, or a true one at `stopWhen`, tells the end. With page numbers or offsets and without that
path, the last page has fewer records than the limit, or none (`stopAfter`). A repeated cursor, URL or page means that
the API sends the same pages again: the run fails instead of running for ever.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urljoin, urlsplit

from ostinato.core.errors import Invalid
from ostinato.features.sources.rules.definition import Paging, PagingKind, StopAfter
from ostinato.features.sources.rules.tables import Cell

LINK: Final = re.compile(r'<([^<>]*)>((?:\s*;\s*[^;,="]+(?:=(?:"[^"]*"|[^;,"]*))?)*)')
REL: Final = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^;,"\s]*))', re.IGNORECASE)
NO: Final = frozenset({"", "false", "no", "0", "null", "none"})
STOPS: Final = "pagination does not advance"


class DoesNotAdvance(Invalid):
    """The next page is one that was fetched before."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{STOPS}: {why}")


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The part of an API's records that a request asks for, and the state of the source before the run."""

    start: Cell = None  # inclusive; None: from the beginning
    end: Cell = None
    state: Cell = None


@dataclass(frozen=True, slots=True)
class PageStep:
    """One page: its number from 1, and the parameters of its request."""

    number: int = 1
    cursor: str = ""  # the cursor, or the URL of the page; empty for the first one
    window: TimeWindow | None = None  # of an incremental source; each window begins with page 1
    seen: int = 0  # records of the window before this page
    greatest: Cell = None  # the greatest value of the cursor before this page

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"number": self.number, "cursor": self.cursor}
        if self.window is not None:
            of = self.window
            found |= {"window": [of.start, of.end, of.state], "seen": self.seen, "greatest": self.greatest}
        return found

    @classmethod
    def of(cls, value: Any) -> "PageStep | None":
        """Read a step from a JSON value; None if it is something else."""
        match value:
            case {
                "number": int(number), "cursor": str(cursor), "window": [start, end, state], "seen": int(seen),
                "greatest": greatest,
            }:  # fmt: skip
                return cls(number, cursor, TimeWindow(start, end, state), seen, greatest)
            case {"number": int(number), "cursor": str(cursor)}:
                return cls(number, cursor)
        return None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of a run after each page: its next step (None: that was the last), and its counters."""

    next: PageStep | None
    source: str  # a fingerprint of the definition that it belongs to
    attempt: int
    counters: Mapping[str, int]
    staged: int = 0  # rows on the stage
    published: bool = False

    def to_json(self) -> dict[str, Any]:
        following = None if self.next is None else self.next.to_json()
        found: dict[str, Any] = {
            "next": following, "source": self.source, "attempt": self.attempt, "counters": dict(self.counters),
        }  # fmt: skip
        return found | ({"staged": self.staged, "published": self.published} if self.staged or self.published else {})

    @classmethod
    def of(cls, value: Any) -> "Checkpoint | None":
        """Read a checkpoint from a JSON value; None if it is something else."""
        match value:
            case {"next": following, "source": str(of), "attempt": int(attempt), "counters": dict(counters)}:
                staged, published = int(value.get("staged", 0)), bool(value.get("published"))
                step = PageStep.of(following)
                if step is not None or following is None:
                    return cls(step, of, attempt, counters, staged, published)
        return None


@dataclass(frozen=True, slots=True)
class SeenPage:
    """The part of an answer about pages."""

    records: int
    more: Any = None  # at hasMorePath
    next: Any = None  # at nextCursorPath or nextUrlPath
    link: str = ""  # the header
    stop: Any = None  # at stopWhen


@dataclass(slots=True)
class Trail:
    """The cursors and URLs that a run has fetched."""

    been: set[tuple[TimeWindow | None, str]] = field(default_factory=set)

    def go(self, step: PageStep) -> None:
        if step.cursor:
            if (step.window, step.cursor) in self.been:
                raise DoesNotAdvance(f"page {step.number} would be at {step.cursor[:100]!r} again.")
            self.been.add((step.window, step.cursor))


def values_of(paging: Paging, step: PageStep) -> list[tuple[str, str | int]]:
    """Return the values of a page's request by place, beside those of the source."""
    found: list[tuple[str, str | int]] = []
    match paging.kind:
        case PagingKind.PAGE:
            found.append((paging.param, paging.start + step.number - 1))
        case PagingKind.OFFSET:
            found.append((paging.param, (step.number - 1) * (paging.limit or 0)))
        case PagingKind.CURSOR if step.cursor:
            found.append((paging.param, step.cursor))
    if paging.limit is not None and paging.limit_param:
        found.append((paging.limit_param, paging.limit))
    return found


def url_of(paging: Paging, step: PageStep, url: str) -> str:
    """Return the URL of a page."""
    by_url = paging.kind in (PagingKind.LINK_HEADER, PagingKind.NEXT_URL)
    return step.cursor if by_url and step.cursor else url


def missing_params(url: str, params: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the parameters that a URL from the API lacks."""
    there = {name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)}
    return [(name, value) for name, value in params if name not in there]


def next_step(paging: Paging, step: PageStep, seen: SeenPage, url: str) -> PageStep | None:
    """Return the page after this one, or None. `url` is the URL of this page."""
    if _is_last(paging, seen):
        return None
    match paging.kind:
        case PagingKind.NONE:
            return None
        case PagingKind.PAGE | PagingKind.OFFSET:
            return PageStep(step.number + 1) if _has_more(paging, seen) else None
        case PagingKind.CURSOR:
            cursor = _cursor(seen.next)
            return PageStep(step.number + 1, cursor) if cursor else None
        case PagingKind.LINK_HEADER:
            return _at(paging, step, linked(seen.link), url)
        case PagingKind.NEXT_URL:
            return _at(paging, step, seen.next if isinstance(seen.next, str) else "", url)


def _is_last(paging: Paging, seen: SeenPage) -> bool:
    """Return True if the answer says that it is the last page."""
    if paging.stop_when and _is_yes(seen.stop):
        return True
    if paging.has_more_path and not _is_yes(seen.more):
        return True
    if paging.stop_after is StopAfter.EMPTY_PAGE:
        return not seen.records
    return paging.stop_after is StopAfter.SHORT_PAGE and seen.records < (paging.limit or 1)


def linked(header: str) -> str:
    """Return the URL with rel=next of a Link header."""
    for target, rest in LINK.findall(header):
        for quoted, bare in REL.findall(rest):
            if "next" in (quoted or bare).lower().split():
                return str(target)
    return ""


def _has_more(paging: Paging, seen: SeenPage) -> bool:
    if paging.has_more_path or paging.stop_after is StopAfter.EMPTY_PAGE:
        return True  # the answer has not said that it is the last one
    return seen.records > 0 and (paging.limit is None or seen.records >= paging.limit)


def _is_yes(value: Any) -> bool:
    """Return True for any value that is not a no: `true`, a URL, a number of pages left."""
    return value.strip().lower() not in NO if isinstance(value, str) else bool(value)


def _cursor(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return value if isinstance(value, str) else str(value)


def _at(paging: Paging, step: PageStep, target: str, url: str) -> PageStep | None:
    if not target.strip():
        return None
    there = urljoin(url, target.strip())
    host = urlsplit(there).hostname
    if host != urlsplit(url).hostname and host not in paging.hosts:
        raise Invalid(
            f"the next page lies on another host than this one: {there[:200]!r}. Name it in pagination.hosts if it is "
            "to get the credentials of this source."
        )
    return PageStep(step.number + 1, there)
