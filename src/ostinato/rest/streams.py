"""Live streams: many listeners share one reading of the feed.

A channel reads the feed of one job, or of all, while somebody listens to it; nobody listens: nothing is read. Who
comes is told, from a reading of its own, what it has missed since the event that it saw last, and then what the
channel reads. The channel is joined first: so something may be told twice, under the same id, and nothing is missed.
Who is too slow is let go, and comes back in the same way.

A stream lasts as long as its credential. The credential is checked before a delivery, once a second at most, and always
before an event that tells of ended access: a revoked key does not receive its own `key.revoked`.
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

from ostinato.access.checking import run_check
from ostinato.core.errors import OstinatoError, StoreError, StoreUnavailable, TooManyRequests
from ostinato.service import Service
from ostinato.shapes.events import EventAnswer
from ostinato.store.feed import MOST_ROWS, Feed, Item, is_wanted

READ_EVERY: Final = 0.5  # seconds
AWAY: Final = 2.0  # seconds until a database that does not answer is asked again
READY_WITHIN: Final = 10.0
COMMENT_EVERY: Final = 15.0  # seconds of silence that proxies bear
LONGEST_STREAM: Final = 3600.0  # seconds; then a listener comes again, and its credential is looked at again
CHECK_EVERY: Final = 1.0  # seconds that a credential is believed
ENDS_ACCESS: Final = ('"kind":"key.revoked"', '"kind":"access.ended"')  # as they stand in a delivery
MOST_LISTENERS: Final = 200
MOST_OF_ONE: Final = 10  # streams of one credential
MOST_WAITING: Final = 100  # readings that a listener may be behind
RETRY: Final = 2000  # milliseconds until a listener comes back

Reading = tuple[list[Item], str]
Readings = asyncio.Queue[Reading | None]  # None is the end


class Channel:
    """One feed, and those who listen to it."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._listeners: set[Readings] = set()
        self._reading: asyncio.Task[None] | None = None
        self.begun = asyncio.Event()  # from here on it misses nothing

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
        """End it for everybody."""
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
            self._tell(reading)
            await asyncio.sleep(READ_EVERY)

    def _tell(self, reading: Reading) -> None:
        for readings in list(self._listeners):
            if readings.qsize() < MOST_WAITING:
                readings.put_nowait(reading)
            else:
                self._listeners.discard(readings)
                readings.put_nowait(None)


@dataclass(frozen=True, slots=True)
class Subscriber:
    """Credential that a stream belongs to, and the check that it is still good."""

    credential: str  # empty: none is required
    check: Callable[[], object]  # raises when the credential is not good any more

    @classmethod
    def of(cls, request: Request) -> Self:
        return cls(request.state.admission.credential, request.state.check)

    async def still_good(self) -> bool:
        """Check the credential; StoreError when the database does not answer."""
        try:
            await run_check(self.check)
        except StoreError:
            raise
        except OstinatoError:
            return False
        return True


class Streams:
    """All channels of this process. To be used, and closed, on its loop."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._channels: dict[UUID | None, Channel] = {}
        self._closed = False
        self._open: Counter[str] = Counter()  # streams by credential

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """End every stream: the server stops."""
        self._closed = True
        for channel in self._channels.values():
            channel.close()

    async def open(
        self, job_id: UUID | None, kinds: Collection[str], since: str | None, subscriber: Subscriber
    ) -> "EventStream":
        """A stream from a cursor on, or from now on; StoreUnavailable or TooManyRequests when there is no room."""
        own, shared = await run_in_threadpool(
            lambda: (self._service.feed(job_id), self._service.feed(job_id))
        )
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
        return EventStream(_told(own, since, first, readings, kinds), leave, subscriber)

    def admit(self, told: AsyncIterator[str], subscriber: Subscriber) -> "EventStream":
        """A stream that reads for itself until it is `closed`; errors as for `open`."""
        self._take_place(subscriber)
        return EventStream(told, lambda: self._give_place(subscriber), subscriber)

    def _take_place(self, subscriber: Subscriber) -> None:
        if self._closed or self._open.total() >= MOST_LISTENERS:
            raise StoreUnavailable("There are too many listeners here; come again later.")
        if subscriber.credential and self._open[subscriber.credential] >= MOST_OF_ONE:
            raise TooManyRequests(f"A credential may hold {MOST_OF_ONE} streams at once: close one first.", 5)
        self._open[subscriber.credential] += 1

    def _give_place(self, subscriber: Subscriber) -> None:
        self._open[subscriber.credential] -= 1
        self._open += Counter()  # forgets credentials without a stream

    def _leave(self, job_id: UUID | None, channel: Channel, readings: Readings) -> None:
        channel.leave(readings)
        if not channel and self._channels.get(job_id) is channel:
            del self._channels[job_id]


class EventStream(Response):
    """Server-Sent Events, until the listener goes, its credential ends, or there are no more."""

    media_type = "text/event-stream"

    def __init__(self, told: AsyncIterator[str], left: Callable[[], None], subscriber: Subscriber) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._told, self._left, self._subscriber = told, left, subscriber
        self._checked_at = float("-inf")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        telling = asyncio.create_task(self._tell(send))
        going = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({telling, going}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._left()
            for task in (telling, going):
                task.cancel()
            await asyncio.gather(telling, going, return_exceptions=True)

    async def _tell(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for text in self._told:
            if not await self._may_hear(text):
                break
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _may_hear(self, text: str) -> bool:
        """Check the credential before a delivery; while the database is away the delivery waits."""
        recent = _now() - self._checked_at < CHECK_EVERY
        if recent and not any(kind in text for kind in ENDS_ACCESS):
            return True
        while True:
            self._checked_at = _now()
            with suppress(StoreError):
                return await self._subscriber.still_good()
            await asyncio.sleep(AWAY)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _told(
    own: Feed, since: str | None, first: Reading, readings: Readings, kinds: Collection[str]
) -> AsyncIterator[str]:
    """Yield the stream of a listener, as text."""
    yield f"retry: {RETRY}\n\n"
    (items, cursor), before, told = first, since, set[str]()
    while True:  # what was missed; if that is much, in parts
        told |= {item.id for item in items}
        yield _events(_wanted(items, kinds), before or cursor, cursor) or _comment(cursor)
        if len(items) < MOST_ROWS:
            break
        before = cursor
        items, cursor = await run_in_threadpool(own.since, cursor)
    end, spoken = _now() + LONGEST_STREAM, _now()
    while _now() < end:
        reading: Reading | None = ([], cursor)
        with suppress(TimeoutError):
            async with asyncio.timeout(COMMENT_EVERY):
                reading = await readings.get()
        if reading is None:
            return
        new = [item for item in _wanted(reading[0], kinds) if item.id not in told]
        before, cursor = cursor, reading[1]
        if new or _now() - spoken >= COMMENT_EVERY:
            spoken = _now()
            yield _events(new, before, cursor) or _comment(cursor)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _wanted(items: Iterable[Item], kinds: Collection[str]) -> list[Item]:
    return [item for item in items if is_wanted(item.kind, kinds)]


def _events(items: Collection[Item], before: str, after: str) -> str:
    """Only the last event of a reading has its cursor: who is cut off before it hears the others again."""
    cursors = [before] * (len(items) - 1) + [after]
    return "".join(
        f"id: {cursor}\ndata: {EventAnswer.of(item).model_dump_json()}\n\n"
        for cursor, item in zip(cursors, items, strict=False)
    )


def _comment(cursor: str) -> str:
    """Something to hear in silence; it moves on the place to come back to."""
    return f": still here\nid: {cursor}\n\n"
