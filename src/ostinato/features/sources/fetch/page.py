"""Request of one page within its bounds, its body, and the failures of a fetch.

A small body stays in memory. A large one goes to a temporary file, so that a page of a gigabyte needs no more memory
than one of a megabyte.

Both kinds of failure are retried; the kind shows where to look. A message names the fault and its place: the page, the
status and the first bytes of the answer, the field.
"""

import io
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import IO, Final

from ostinato.core.errors import BadAnswer, Invalid, OstinatoError, StoreUnavailable, TooMuch, Unreachable
from ostinato.core.times import format_duration
from ostinato.features.sources.rules.definition import Source
from ostinato.features.sources.rules.paging import PageStep, missing_params, params_of, url_of
from ostinato.features.sources.rules.windows import HEADER, bounds_of
from ostinato.outgoing import Bounds, Credentials, Outgoing
from ostinato.task.signals import RetryLater


class TransientFailure(Exception):
    """The network, a timeout, 408, 425, 429 or 5xx: the same request may work later."""


class PermanentFailure(Exception):
    """A failure that needs a change of the source, the API or the table."""


class AskedToWait(RetryLater):
    """The API asked for a wait."""


def failure(error: OstinatoError, page: int, wait: timedelta | None = None) -> Exception:
    """Return the error of a run that failed at a page."""
    transient = isinstance(error, StoreUnavailable) or (isinstance(error, Unreachable) and error.transient)
    sentence = f"Page {page}: {error}"
    if transient and wait:
        return AskedToWait(wait, f"{sentence} The API asks to wait {format_duration(wait)}.")
    return TransientFailure(sentence) if transient else PermanentFailure(sentence)


LARGE: Final = 1024 * 1024  # bytes held in memory
SILENCE: Final = 30.0  # seconds without data from the API


@dataclass(slots=True)
class FetchedPage:
    """An answer with its body. Close it after use."""

    url: str
    body: IO[bytes]
    size: int
    requests: int
    link: str
    wait: timedelta | None  # the wait that the API asks for
    bad: Callable[[str, bytes], BadAnswer]

    @property
    def is_large(self) -> bool:
        return self.size > LARGE

    def wrong(self, sentence: str) -> BadAnswer:
        """Return an error about this answer, with its first bytes."""
        self.body.seek(0)
        return self.bad(sentence, self.body.read(500))

    def close(self) -> None:
        self.body.close()


async def ask(
    outgoing: Outgoing,
    source: Source,
    step: PageStep,
    credentials: Credentials,
    most: int,
) -> FetchedPage:
    """Request a page of at most `most` bytes; raise failures of the run with the page's number."""
    url = url_of(source.paging, step, source.url)
    bounds = [] if source.incremental is None else bounds_of(source.incremental, step.window)
    since = [(place, value) for place, value in bounds if not place.startswith(HEADER)]
    headers = {place.removeprefix(HEADER): value for place, value in bounds if place.startswith(HEADER)}
    params = [*source.params, *since, *params_of(source.paging, step)]
    if url is step.cursor:
        params = missing_params(url, params)  # the API's URL of the next page has some already
    seconds = source.execution.timeout.total_seconds()
    limits = Bounds(
        begin=min(SILENCE, seconds),
        silence=min(SILENCE, seconds),
        total=seconds,
        received=most,
        unpacked=most,
    )
    wait = None
    try:
        async with outgoing.request(
            "GET", url, params=params, headers=dict(source.headers) | headers, credentials=credentials, bounds=limits
        ) as reply:
            wait = reply.asked.wait
            await reply.require_good()
            body: IO[bytes] = io.BytesIO()
            try:
                async for part in reply.parts():
                    body.write(part)
                    if isinstance(body, io.BytesIO) and body.tell() > LARGE:
                        body = _in_a_file(body)
            except BaseException:
                body.close()
                raise
            link = reply.headers.get("link", "")
            return FetchedPage(reply.url, body, reply.unpacked, reply.hops, link, wait, reply.bad)
    except TooMuch as error:
        raise failure(TooMuch(f"{error} (limits.maxBytes)"), step.number) from None
    except (Unreachable, Invalid) as error:
        raise failure(error, step.number, wait) from None


def _in_a_file(body: io.BytesIO) -> IO[bytes]:
    file = tempfile.TemporaryFile(prefix="ostinato-")  # noqa: SIM115  its page closes it
    file.write(body.getbuffer())
    body.close()
    return file
