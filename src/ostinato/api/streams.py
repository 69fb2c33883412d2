"""Live streams: many listeners share one reading of the feed.

A channel reads the feed of one job, or of all, while somebody listens to it; nobody listens: nothing is read. Who
comes is told, from a reading of its own, what it has missed since the event that it saw last, and then what the
channel reads. The channel is joined first: so something may be told twice, under the same id, and nothing is missed.
Who is too slow is let go, and comes back in the same way.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import suppress
from typing import Final
from uuid import UUID

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ostinato.core.errors import StoreError, StoreUnavailable
from ostinato.scheduler import Scheduler
from ostinato.store.feed import MOST, Feed, Item, is_wanted
from ostinato.wire.events import EventAnswer

READ_EVERY: Final = 0.5  # seconds
AWAY: Final = 2.0  # seconds until a database that does not answer is asked again
READY_WITHIN: Final = 10.0
COMMENT_EVERY: Final = 15.0  # seconds of silence that proxies bear
LONGEST: Final = 3600.0  # seconds; then a listener comes again, and its credential is looked at again
MOST_LISTENERS: Final = 100
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


class Streams:
    """All channels of this process. To be used, and closed, on its loop."""

    def __init__(self, desk: Scheduler) -> None:
        self._desk = desk
        self._channels: dict[UUID | None, Channel] = {}
        self._closed = False
        self._admitted = 0

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """End every stream: the server stops."""
        self._closed = True
        for channel in self._channels.values():
            channel.close()

    async def open(self, job_id: UUID | None, kinds: Collection[str], since: str | None) -> "EventStream":
        """A stream from a cursor on, or from now on; StoreUnavailable when there is no room."""
        self._require_room()
        own, shared = await run_in_threadpool(lambda: (self._desk.feed(job_id), self._desk.feed(job_id)))
        channel = self._channels.setdefault(job_id, Channel(shared))
        readings = channel.join()
        try:
            async with asyncio.timeout(READY_WITHIN):
                await channel.begun.wait()
            first = await run_in_threadpool(own.since, since)
        except TimeoutError:
            self._leave(job_id, channel, readings)
            raise StoreUnavailable("The database does not answer.") from None
        except BaseException:
            self._leave(job_id, channel, readings)
            raise
        told = _told(own, since, first, readings, kinds)
        return EventStream(told, lambda: self._leave(job_id, channel, readings))

    def admit(self, told: AsyncIterator[str]) -> "EventStream":
        """A stream that reads for itself until it is `closed`; StoreUnavailable when there is no room."""
        self._require_room()
        self._admitted += 1
        return EventStream(told, self._dismiss)

    def _dismiss(self) -> None:
        self._admitted -= 1

    def _require_room(self) -> None:
        listeners = self._admitted + sum(map(len, self._channels.values()))
        if self._closed or listeners >= MOST_LISTENERS:
            raise StoreUnavailable("There are too many listeners here; come again later.")

    def _leave(self, job_id: UUID | None, channel: Channel, readings: Readings) -> None:
        channel.leave(readings)
        if not channel and self._channels.get(job_id) is channel:
            del self._channels[job_id]


class EventStream(Response):
    """Server-Sent Events, until the listener goes or there are no more."""

    media_type = "text/event-stream"

    def __init__(self, told: AsyncIterator[str], left: Callable[[], None]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._told, self._left = told, left

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
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _told(
    own: Feed, since: str | None, first: Reading, readings: Readings, kinds: Collection[str]
) -> AsyncIterator[str]:
    """What a listener is told, as text."""
    yield f"retry: {RETRY}\n\n"
    (items, cursor), before, told = first, since, set[str]()
    while True:  # what was missed; if that is much, in parts
        told |= {item.id for item in items}
        yield _events(_wanted(items, kinds), before or cursor, cursor) or _comment(cursor)
        if len(items) < MOST:
            break
        before = cursor
        items, cursor = await run_in_threadpool(own.since, cursor)
    end, spoken = _now() + LONGEST, _now()
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
