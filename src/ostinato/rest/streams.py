"""Live streams: many clients share one reading of the feed.

A channel reads the feed of one job, or of all, while it has clients; without clients it reads nothing. A client joins
the channel, then reads the feed itself from the event that it saw last, then gets the readings of the channel. Because
it joins first, it misses nothing; an event may come twice, with the same id. A client that is too slow is
disconnected, and reconnects in the same way.

A stream lasts as long as its credential. The credential is checked before a delivery, once a second at most, and always
before an event about ended access: a revoked key does not receive its own `key.revoked`.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self
from uuid import UUID

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ostinato.access.requests import run_check
from ostinato.core.errors import OstinatoError, StoreError, StoreUnavailable, TooManyRequests
from ostinato.core.read_models import MOST_ITEMS, Item, is_wanted
from ostinato.service import Feed, Service
from ostinato.shapes.answers import written
from ostinato.shapes.operating import EventAnswer

READ_EVERY: Final = 0.5  # seconds
AWAY: Final = 2.0  # seconds between two attempts to reach a database that does not answer
READY_WITHIN: Final = 10.0
COMMENT_EVERY: Final = 15.0  # seconds; proxies close connections that are silent for longer
LONGEST_STREAM: Final = 3600.0  # seconds; then the client reconnects, and is authenticated again
CHECK_EVERY: Final = 1.0  # seconds between two checks of a credential
ENDS_ACCESS: Final = ('"kind":"key.revoked"', '"kind":"access.ended"')  # as in the text of a delivery
MOST_LISTENERS: Final = 200
MOST_OF_ONE: Final = 10  # streams of one credential
MOST_WAITING: Final = 100  # readings that a client may be behind
RETRY: Final = 2000  # milliseconds until a client reconnects

Reading = tuple[list[Item], str]
Readings = asyncio.Queue[Reading | None]  # None ends the stream


class Channel:
    """A feed and its clients."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._listeners: set[Readings] = set()
        self._reading: asyncio.Task[None] | None = None
        self.begun = asyncio.Event()  # set when the channel has its first cursor: it misses no later event

    def __len__(self) -> int:
        return len(self._listeners)

    def join(self) -> Readings:
        readings: Readings = asyncio.Queue()
        self._listeners.add(readings)
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        return readings

    def leave(self, readings: Readings) -> None:
        self._listeners.discard(readings)
        if not self._listeners:
            self.close()

    def close(self) -> None:
        """End the streams of all clients."""
        for readings in self._listeners:
            readings.put_nowait(None)
        if self._reading is not None:
            self._reading.cancel()

    async def _read(self) -> None:
        cursor: str | None = None
        while True:
            try:
                reading = await run_in_threadpool(self._feed.since, cursor)
            except StoreError:
                await asyncio.sleep(AWAY)
                continue
            _, cursor = reading
            self.begun.set()
            self._deliver(reading)
            await asyncio.sleep(READ_EVERY)

    def _deliver(self, reading: Reading) -> None:
        for readings in list(self._listeners):
            if readings.qsize() < MOST_WAITING:
                readings.put_nowait(reading)
            else:
                self._listeners.discard(readings)
                readings.put_nowait(None)


@dataclass(frozen=True, slots=True)
class Subscriber:
    """The credential of a stream, and the check that it is still valid."""

    credential: str  # empty if no authentication is required
    check: Callable[[], object]  # raises when the credential is no longer valid

    @classmethod
    def of(cls, request: Request) -> Self:
        return cls(request.state.admission.credential, request.state.check)

    async def is_valid(self) -> bool:
        """Check the credential; StoreError if the database does not answer."""
        try:
            await run_check(self.check)
        except StoreError:
            raise
        except OstinatoError:
            return False
        return True


class Streams:
    """All channels of this process. Use and close them on its event loop."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._channels: dict[UUID | None, Channel] = {}
        self._closed = False
        self._open: Counter[str] = Counter()  # streams by credential

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """End all streams, because the server stops."""
        self._closed = True
        for channel in self._channels.values():
            channel.close()

    async def open(
        self, job_id: UUID | None, kinds: Collection[str], since: str | None, subscriber: Subscriber
    ) -> "_EventStream":
        """Open a stream after a cursor, or from now; StoreUnavailable or TooManyRequests if a limit is reached."""
        own, shared = await run_in_threadpool(lambda: (self._service.feed(job_id), self._service.feed(job_id)))
        self._take_place(subscriber)
        channel = self._channels.setdefault(job_id, Channel(shared))
        readings = channel.join()

        def leave() -> None:
            self._leave(job_id, channel, readings)
            self._give_place(subscriber)

        try:
            async with asyncio.timeout(READY_WITHIN):
                await channel.begun.wait()
            first = await run_in_threadpool(own.since, since)
        except TimeoutError:
            leave()
            raise StoreUnavailable("The database does not answer.") from None
        except BaseException:
            leave()
            raise
        return _EventStream(_texts(own, since, first, readings, kinds), leave, subscriber)

    def admit(self, texts: AsyncIterator[str], subscriber: Subscriber) -> "_EventStream":
        """Open a stream that reads without a channel and ends when `closed` is true; errors as for `open`."""
        self._take_place(subscriber)
        return _EventStream(texts, lambda: self._give_place(subscriber), subscriber)

    def _take_place(self, subscriber: Subscriber) -> None:
        if self._closed or self._open.total() >= MOST_LISTENERS:
            raise StoreUnavailable("Too many streams are open on this server; try again later.")
        if subscriber.credential and self._open[subscriber.credential] >= MOST_OF_ONE:
            raise TooManyRequests(f"A credential may hold {MOST_OF_ONE} streams at once: close one first.", 5)
        self._open[subscriber.credential] += 1

    def _give_place(self, subscriber: Subscriber) -> None:
        self._open[subscriber.credential] -= 1
        self._open += Counter()  # removes credentials without a stream

    def _leave(self, job_id: UUID | None, channel: Channel, readings: Readings) -> None:
        channel.leave(readings)
        if not channel and self._channels.get(job_id) is channel:
            del self._channels[job_id]


class _EventStream(Response):
    """Server-Sent Events, until the client disconnects, its credential ends, or the texts end."""

    media_type = "text/event-stream"

    def __init__(self, texts: AsyncIterator[str], on_close: Callable[[], None], subscriber: Subscriber) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._texts, self._on_close, self._subscriber = texts, on_close, subscriber
        self._checked_at = float("-inf")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send_all(send))
        waiting = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait({sending, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._on_close()
            for task in (sending, waiting):
                task.cancel()
            await asyncio.gather(sending, waiting, return_exceptions=True)

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for text in self._texts:
            if not await self._may_receive(text):
                break
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _may_receive(self, text: str) -> bool:
        """Check the credential before a delivery; the delivery waits while the database does not answer."""
        recent = _now() - self._checked_at < CHECK_EVERY
        if recent and not any(kind in text for kind in ENDS_ACCESS):
            return True
        while True:
            self._checked_at = _now()
            with suppress(StoreError):
                return await self._subscriber.is_valid()
            await asyncio.sleep(AWAY)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _texts(
    own: Feed, since: str | None, first: Reading, readings: Readings, kinds: Collection[str]
) -> AsyncIterator[str]:
    """Yield the stream of a client as text."""
    yield f"retry: {RETRY}\n\n"
    (items, cursor), before, sent = first, since, set[str]()
    while True:  # the missed events, in parts if there are many
        sent |= {item.id for item in items}
        yield _events(_wanted(items, kinds), before or cursor, cursor) or _comment(cursor)
        if len(items) < MOST_ITEMS:
            break
        before = cursor
        items, cursor = await run_in_threadpool(own.since, cursor)
    end, last_sent = _now() + LONGEST_STREAM, _now()
    while _now() < end:
        reading: Reading | None = ([], cursor)
        with suppress(TimeoutError):
            async with asyncio.timeout(COMMENT_EVERY):
                reading = await readings.get()
        if reading is None:
            return
        new = [item for item in _wanted(reading[0], kinds) if item.id not in sent]
        before, cursor = cursor, reading[1]
        if new or _now() - last_sent >= COMMENT_EVERY:
            last_sent = _now()
            yield _events(new, before, cursor) or _comment(cursor)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _wanted(items: Iterable[Item], kinds: Collection[str]) -> list[Item]:
    return [item for item in items if is_wanted(item.kind, kinds)]


def _events(items: Collection[Item], before: str, after: str) -> str:
    """Return events as text. Only the last one has the new cursor: a client cut off before it gets all again."""
    cursors = [before] * (len(items) - 1) + [after]
    return "".join(
        f"id: {cursor}\ndata: {written(EventAnswer.of(item))}\n\n" for cursor, item in zip(cursors, items, strict=False)
    )


def _comment(cursor: str) -> str:
    """Return a comment that keeps the connection open, and updates the cursor of the client."""
    return f": still here\nid: {cursor}\n\n"
