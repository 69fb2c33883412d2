"""Request of one page within its bounds, its body, and the failures of a fetch.

A small body stays in memory. A large one goes to a temporary file, so that a page of a gigabyte needs no more memory
than one of a megabyte.

Both kinds of failure are retried; the kind shows where to look. A message names the fault and its place: the page, the
status and the first bytes of the answer, the field.
"""

import io
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import IO, Final

from ostinato.core.errors import BadAnswer, Invalid, OstinatoError, StoreUnavailable, TooMuch, Unreachable
from ostinato.core.times import format_duration
from ostinato.features.sources.rules.definition import Source
from ostinato.features.sources.rules.paging import PageStep, missing_params, url_of, values_of
from ostinato.features.sources.rules.requests import LOOKED_AT, ActionKind, ResponseAction, placed_request
from ostinato.features.sources.rules.windows import bounds_of
from ostinato.outgoing import Bounds, Credentials, Outgoing, Reply
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
NO_CONTENT: Final = 204
SILENCE: Final = 30.0  # seconds without data from the API


@dataclass(slots=True)
class FetchedPage:
    """An answer with its body. Close it after use."""

    url: str
    body: IO[bytes]
    size: int
    requests: int
    headers: Mapping[str, str]
    wait: timedelta | None  # the wait that the API asks for
    bad: Callable[[str, bytes], BadAnswer]
    is_ignored: bool = False  # it counts as an empty last page

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
    values = [*bounds_of(source.incremental, step.window), *values_of(source.paging, step)]
    request = placed_request(source.params, source.headers, source.body, values)
    params = request.params
    if url is step.cursor:
        params = missing_params(url, params)  # the API's URL of the next page has some already
    seconds = source.execution.timeout.total_seconds()
    bounds = Bounds(
        begin=min(SILENCE, seconds),
        silence=min(SILENCE, seconds),
        total=seconds,
        received=most,
        unpacked=most,
    )
    wait = None
    try:
        async with outgoing.request(
            source.method, url, params=params, headers=request.headers, body=request.body, credentials=credentials,
            bounds=bounds,
        ) as reply:  # fmt: skip
            wait = reply.asked.wait
            return await _answered(reply, source, step)
    except TooMuch as error:
        raise failure(TooMuch(f"{error} (limits.maxBytes)"), step.number) from None
    except (Unreachable, Invalid) as error:
        raise failure(error, step.number, wait) from None


async def _answered(reply: Reply, source: Source, step: PageStep) -> FetchedPage:
    """Read an answer; the first of the source's actions that fits it decides what becomes of it."""
    wait = reply.asked.wait
    actions = [each for each in source.actions if each.takes(reply.status)]
    if not any(each.looks for each in actions):
        action = next(iter(actions), None)
        if action is None:
            await reply.require_good()
        else:
            _act(action, reply, step, b"")
            if action.action is ActionKind.IGNORE:
                await reply.discard()
                return FetchedPage(reply.url, io.BytesIO(), 0, reply.hops, reply.headers, wait, reply.bad, True)
    body = await _body_of(reply)
    try:
        beginning = body.read(LOOKED_AT) if not body.seek(0) and actions else b""
        action = next((each for each in actions if each.fits(beginning)), None)
        if action is not None:
            _act(action, reply, step, beginning)
        elif not reply.good:
            raise reply.bad(f"The API answered {reply.status}.", beginning)
        ignored = action is not None or reply.status == NO_CONTENT
        return FetchedPage(reply.url, body, reply.unpacked, reply.hops, reply.headers, wait, reply.bad, ignored)
    except BaseException:
        body.close()
        raise


def _act(action: ResponseAction, reply: Reply, step: PageStep, body: bytes) -> None:
    """Raise the failure that an action of a source asks for."""
    if action.action is ActionKind.IGNORE:
        return
    sentence = f"Page {step.number}: {action.say or reply.bad(f'The API answered {reply.status}.', body)}"
    if action.action is ActionKind.FAIL:
        raise PermanentFailure(sentence)
    if action.after is not None:
        raise AskedToWait(action.after, sentence)
    raise TransientFailure(sentence)


async def _body_of(reply: Reply) -> IO[bytes]:
    body: IO[bytes] = io.BytesIO()
    try:
        async for part in reply.parts():
            body.write(part)
            if isinstance(body, io.BytesIO) and body.tell() > LARGE:
                body = _in_a_file(body)
    except BaseException:
        body.close()
        raise
    return body


def _in_a_file(body: io.BytesIO) -> IO[bytes]:
    file = tempfile.TemporaryFile(prefix="ostinato-")  # noqa: SIM115  its page closes it
    file.write(body.getbuffer())
    body.close()
    return file
