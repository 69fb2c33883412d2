"""Calls to the databases that sources name: few at once, with a deadline, and errors in plain words.

A database that does not answer blocks a call for as long as its driver waits. So each call has a thread of its own, and
the request does not wait for its end: such calls cannot block the threads that answer other requests.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final, TypeVar

from ostinato.core.auth import REFERENCE
from ostinato.core.errors import Invalid, StoreError, StoreUnavailable
from ostinato.features.sources.rows import SourceRecords
from ostinato.features.sources.rules.tables import Target

CALLS_AT_ONCE: Final = 3
ANSWER_WITHIN: Final = 5.0  # seconds

log = logging.getLogger("ostinato.service")

T = TypeVar("T")


class ForeignDatabases:
    """Databases of sources, as requests use them. The scheduler's own database has none of these limits."""

    def __init__(self, records: SourceRecords) -> None:
        self._records = records
        self._free = threading.BoundedSemaphore(CALLS_AT_ONCE)

    def ask(self, target: Target, call: Callable[[], T]) -> T:
        """Make a call with a deadline; errors are StoreUnavailable or Invalid in plain words."""
        if not target.database:
            return call()
        self._records.places.check_reference(target)
        if not self._free.acquire(blocking=False):
            raise StoreUnavailable(f"{CALLS_AT_ONCE} calls to databases of sources are running; try again.")
        with told_plainly(target):
            return self._in_time(target, call)

    def _in_time(self, target: Target, call: Callable[[], T]) -> T:
        answer = Future[T]()
        try:
            name = f"ostinato-source-{target.source}"
            threading.Thread(target=self._run, args=(call, answer), name=name, daemon=True).start()
        except RuntimeError:
            self._free.release()
            raise StoreUnavailable("No thread is free for a call to the database of a source; try again.") from None
        try:
            return answer.result(ANSWER_WITHIN)
        except TimeoutError:
            raise StoreUnavailable(f"It has not answered within {ANSWER_WITHIN:g} s.") from None

    def _run(self, call: Callable[[], T], answer: "Future[T]") -> None:
        try:
            found = call()
        except BaseException as error:  # noqa: BLE001  raised again in the thread that waits
            self._free.release()
            answer.set_exception(error)
        else:
            self._free.release()
            answer.set_result(found)


@contextmanager
def told_plainly(target: Target) -> Iterator[None]:
    """Replace an error of a source's database by a plain sentence; the log gets the driver's message.

    That message may hold parts of a URL that the source names by reference.
    """
    try:
        yield
    except (StoreError, Invalid) as error:
        if not target.database or (isinstance(error, Invalid) and not REFERENCE.fullmatch(target.database)):
            raise
        log.warning("The database of the source %s failed: %s", target.source, error)
        if isinstance(error, StoreUnavailable):
            raise StoreUnavailable(
                f"The database of the source {target.source!r} does not answer; the log of the server says why."
            ) from None
        raise Invalid(
            f"database: the database of the source {target.source!r} cannot be used; the log of the server says why."
        ) from None
