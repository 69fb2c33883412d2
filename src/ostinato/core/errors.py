"""Errors that Ostinato raises on purpose.

OstinatoError
├── Invalid                 the input is wrong; the message says what to do        (422, exit 2)
│   ├── InvalidSchedule     it can never fire, or cannot be read
│   ├── UnknownTask         no process known to this database has a task of that name
│   ├── WrongArgument       an arg of a task is wrong, or not allowed here
│   └── InvalidSetting      a setting or environment variable cannot be used
│       └── MissingExtra    a library is missing that an extra of the package brings
├── NotFound                no job, execution, worker or queue of that name        (404, exit 3)
├── Conflict                the state does not allow it; nothing was changed       (409, exit 4)
│   ├── Stale               another request has changed it since it was read       (412)
│   └── WrongState          the same, for a schedule of the schedules API          (400)
├── Unauthorized            no credential, or an invalid one                       (401)
├── Forbidden               a valid credential, but its role is too low            (403)
├── TooManyRequests         a limit of this server is reached: try again later     (429)
├── TooLarge                the body of a request is over the limit                (413)
├── TooSlow                 the body of a request did not arrive in time           (408)
├── StoreError
│   ├── StoreUnavailable    the database does not answer: try again later          (503, exit 5)
│   ├── RowRefused          the database refuses the values of a row, now and later
│   │   └── Duplicate       a unique index has such a row already (store/database.py)
│   ├── RightsMissing       the role in the database URL lacks a right
│   ├── SchemaBehind        the database needs `ostinato db upgrade`
│   ├── ForeignDatabase     not a database of Ostinato, or of a newer version: left untouched
│   └── DatabaseReplaced    another database is under the same name: nothing is written  (503, exit 5)
├── Unreachable             a remote host gave no usable answer; `transient`: it may later
│   ├── NotAllowed          the address must not be called: private, another scheme, a loop of redirects
│   ├── BadAnswer           the status of the answer is not 2xx, or its body cannot be read
│   └── TooMuch             the answer is larger or deeper than allowed
├── BudgetSpent             a provider's budget is used up until a time: a run is deferred
└── LeaseLost               this worker no longer holds its run

A message is a sentence for a person.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

TRANSIENT: Final = frozenset({408, 425, 429})  # and 5xx: the same request may succeed later
# Raised by readers of stored text that is damaged, or that a newer version has written.
NOT_READABLE: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


class OstinatoError(Exception):
    """The base class of the errors that Ostinato raises on purpose."""


class Invalid(OstinatoError, ValueError):
    """The input is wrong; nothing was changed."""


class InvalidSchedule(Invalid):
    """A schedule that cannot be read, or that can never fire."""


class UnknownTask(Invalid):
    """A task name that no process of this database knows."""


class WrongArgument(Invalid):
    """An arg of a task, or a parameter of a template, is wrong or not allowed; `field` says which one."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


class InvalidSetting(Invalid):
    """A setting that cannot be used."""


class MissingExtra(InvalidSetting):
    """A library is missing; `extra` is the part of the package that brings it."""

    def __init__(self, extra: str, sentence: str) -> None:
        super().__init__(sentence)
        self.extra = extra


class NotFound(OstinatoError, LookupError):
    """There is nothing of that name."""


class Conflict(OstinatoError):
    """The state does not allow it; nothing was changed."""


class Stale(Conflict):
    """The object has changed since it was read; nothing was written."""


class WrongState(Conflict):
    """A conflict with the state of a schedule: seed 001 answers 400, the other endpoints answer 409."""


class Unauthorized(OstinatoError):
    """No credential, or an invalid one."""


class Forbidden(OstinatoError):
    """A valid credential whose role is too low."""


class TooManyRequests(OstinatoError):
    """A limit of this server is reached; the same request may work after `retry_after` seconds."""

    def __init__(self, sentence: str, retry_after: int = 1) -> None:
        super().__init__(sentence)
        self.retry_after = retry_after


class TooLarge(OstinatoError):
    """The body of a request is over the limit."""


class TooSlow(OstinatoError):
    """The body of a request did not arrive in time."""


class StoreError(OstinatoError):
    """An error of the database itself."""


class StoreUnavailable(StoreError):
    """The database does not answer; the same call may work later."""


class RowRefused(StoreError):
    """The database refuses the values of a row; the same row will be refused again."""


class RightsMissing(StoreError):
    """The role in the database URL lacks a right."""


class SchemaBehind(StoreError):
    """The database needs an upgrade before this version can use it."""


class ForeignDatabase(StoreError):
    """A database that is not ours, or that a newer version wrote."""


class DatabaseReplaced(StoreError):
    """Another database is under the name that this process opened; the process has to stop."""


class Unreachable(OstinatoError):
    """A remote host gave no usable answer."""

    transient = True  # whether the same request may work later


class NotAllowed(Unreachable):
    """The address must not be called."""

    transient = False


class TooMuch(Unreachable):
    """An answer that is larger, or deeper, than was allowed."""

    transient = False


class BadAnswer(Unreachable):
    """An answer, but not the one that was asked for. `excerpt` is the beginning of its body."""

    def __init__(self, message: str, status: int, excerpt: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.excerpt, self.headers = status, excerpt, headers or {}
        self.transient = status in TRANSIENT or status >= 500


class BudgetSpent(OstinatoError):
    """The budget of a provider is used up; the same request may go out at `until`."""

    def __init__(self, provider: str, until: datetime) -> None:
        super().__init__(f"The budget of {provider} is used up until {until:%Y-%m-%d %H:%M:%S} UTC.")
        self.provider, self.until = provider, until


class LeaseLost(OstinatoError):
    """This worker no longer holds what it was running."""
