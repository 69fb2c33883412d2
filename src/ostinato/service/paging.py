"""Pages of answers, the cursors between them, and the CPU time that one question may use.

A cursor is opaque to clients: the sort of its page and the key of the last row, as text. So the next page begins at the
right row, even after rows were added or removed.
"""

import base64
import binascii
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from ostinato.core.errors import Invalid, NotFound
from ostinato.core.payload import is_storable
from ostinato.core.read_models import SORTS
from ostinato.core.schedule import Expired
from ostinato.store.search import ExecutionKey, JobKey

T = TypeVar("T")

PAGE_LIMIT: Final = 250  # maximum length of a page
FURTHEST: Final = 1_000_000_000
GREATEST: Final = 2**63


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of results, their total number, and the cursor of the next page (None: this was the last)."""

    items: Sequence[T]
    total: int
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Sort:
    """The field of a sort, and its direction."""

    by: str
    down: bool

    @classmethod
    def of(cls, text: str) -> "Sort":
        by = text.removeprefix("-")
        if by not in SORTS:
            raise Invalid(f"Jobs cannot be sorted by {by[:60]!r}; there are {', '.join(SORTS)}, each also with a -.")
        return cls(by, text.startswith("-"))

    def __str__(self) -> str:
        return f"{'-' * self.down}{self.by}"


def check_page(limit: int, offset: int) -> None:
    """Raise Invalid for an impossible limit or offset."""
    if not 1 <= limit <= PAGE_LIMIT:
        raise Invalid(f"limit must be between 1 and {PAGE_LIMIT}, not {limit}.")
    if not 0 <= offset <= FURTHEST:
        raise Invalid(f"offset must be between 0 and {FURTHEST:,}, not {offset}.")


def check_words(**words: str | None) -> None:
    """Raise Invalid for a text that databases cannot compare."""
    for name, text in words.items():
        if text is not None and not is_storable(text):
            raise Invalid(f"{name} cannot contain NUL characters or half of a surrogate pair.")


def job_cursor(sort: Sort, last: JobKey | None) -> str | None:
    return None if last is None else _text([str(sort), last.id.hex, last.number, last.words])


def job_key(cursor: str | None, sort: Sort) -> JobKey | None:
    """Read the cursor of a page of jobs."""
    match None if cursor is None else _values(cursor):
        case None:
            return None
        case [str(by), str(job_id), int(number), str(words)] if by == str(sort) and abs(number) < GREATEST:
            check_words(cursor=words)
            return JobKey(_id(job_id), number, words)
        case _:
            raise _invalid()


def execution_cursor(last: ExecutionKey | None) -> str | None:
    return None if last is None else _text([last.id.hex, last.number, last.attempt])


def execution_key(cursor: str | None) -> ExecutionKey | None:
    """Read the cursor of a page of executions."""
    match None if cursor is None else _values(cursor):
        case None:
            return None
        case [str(execution_id), int(number), int(attempt)] if max(abs(number), abs(attempt)) < GREATEST:
            return ExecutionKey(_id(execution_id), number, attempt)
        case _:
            raise _invalid()


def _text(values: list[Any]) -> str:
    packed = json.dumps(values, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _values(cursor: str) -> Any:
    try:
        return json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise _invalid() from None


def _id(text: str) -> UUID:
    try:
        return UUID(hex=text)
    except ValueError:
        raise _invalid() from None


def _invalid() -> NotFound:
    return NotFound("This cursor does not belong to this list: use the cursor of its last page, with the same sort.")


# -- The CPU time that one question of the API or the dashboard may use

SECONDS: Final = 0.25


def allowance(seconds: float = SECONDS, spent: Callable[[], float] = time.thread_time) -> Expired:
    """Start to count the CPU time of this thread; the result turns true once `seconds` of it are used."""
    end = spent() + seconds
    return lambda: spent() > end
