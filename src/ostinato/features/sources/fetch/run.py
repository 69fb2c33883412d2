"""A run of a source: it stores page after page until the last one, and then publishes what it has collected on a stage.

When a run is stopped (cancelled, timed out, its worker stopped or killed), earlier pages are stored as a whole, and
nothing of the present page. A retry begins with the first page, since the API may have changed, unless the source has
`resume: true`. A run that was only released (its worker stopped, or a provider's budget was spent) goes on with the
next page: starting over might never end.

`try_source` fetches and maps the first page as a test, and stores nothing.
"""

import asyncio
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, Final

from ostinato.clock import SystemClock
from ostinato.core.errors import Invalid, LeaseLost, OstinatoError, StoreError
from ostinato.core.payload import encode
from ostinato.core.policy import Overlap
from ostinato.features.sources.calls import RunTable
from ostinato.features.sources.fetch.page import PermanentFailure, ask, failure
from ostinato.features.sources.fetch.records import FetchCounters, Mapped, PageReader, at_limit, read
from ostinato.features.sources.rows import Stored
from ostinato.features.sources.rules import read_source
from ostinato.features.sources.rules.converting import less_overlap
from ostinato.features.sources.rules.definition import Source
from ostinato.features.sources.rules.mapping import Mapper, Rejection
from ostinato.features.sources.rules.paging import Checkpoint, DoesNotAdvance, PageStep, TimeWindow, Trail, next_step
from ostinato.features.sources.rules.tables import Row, RowChanges, WriteMode
from ostinato.features.sources.rules.windows import first_window
from ostinato.outgoing import Credentials, Outgoing
from ostinato.task import Context, Defer, GiveUp

LONGEST_WAIT: Final = timedelta(seconds=30)  # the longest wait without Defer
CANCEL_WITHIN: Final = 30.0  # seconds within which a requested cancel arrives


class SourceRun:
    """One run of a source."""

    def __init__(self, ctx: Context, written: dict[str, Any], allow_deletions: bool = False) -> None:
        try:
            self.source = read_source(written)
        except Invalid as error:
            raise GiveUp(f"The definition of this source cannot be used: {error}") from None
        if not self.source.active:
            raise GiveUp(f"The source {self.source.name} is {self.source.status}: only an active one runs.")
        if self.source.write.mode is not WriteMode.INSERT and ctx.definition.policies.overlap is Overlap.ALLOW:
            raise GiveUp(
                f"write: {self.source.write.mode} cannot run with the policy overlap: allow, since two runs would undo "
                "each other's changes. Choose another overlap, or write: insert."
            )
        self.ctx, self._allow_deletions = ctx, allow_deletions
        self.count = FetchCounters()
        self.limited_by = ""
        self._table = RunTable(ctx, self.source.target)
        self._began = ctx.live.started_at or SystemClock().now()
        self._pages = PageReader(self.source, self._table, self._began)
        self._credentials = Credentials(self.source.auth)
        self._trail = Trail()
        self._first: PageStep | None = PageStep()  # of a run that begins anew; None: nothing is left to fetch
        self._coming: asyncio.Task[Mapped] | None = None  # the next page
        self._staged = 0  # rows of this run on its stage
        self._published = False
        self._fingerprint = blake2b(encode(written).encode(), digest_size=8).hexdigest()

    async def go(self) -> dict[str, Any]:
        """Store page after page; return the result of the run."""
        try:
            await self._open()
            step = await self._staged_step(self._first_step())
            while step is not None and not self._limit_reached(step):
                step = await self._page(step)
                self._report()
            await self._publish()
        except LeaseLost:
            await self._cancel_next_page()
            await asyncio.sleep(CANCEL_WITHIN)  # a requested cancel arrives here
            raise
        finally:
            await self._cancel_next_page()
        if self.limited_by:
            self.ctx.log.warning(
                f"Fetch stopped at {self.limited_by}; the remaining records were not fetched",
                source=self.source.name,
            )
        return self.result()

    def result(self) -> dict[str, Any]:
        """The result of the run."""
        found: dict[str, Any] = {"table": self.source.table, **asdict(self.count)}
        if self._pages.rejections:
            found["rejections"] = [asdict(each) for each in self._pages.rejections]
        if self.limited_by:
            found["limited_by"] = self.limited_by
        return found

    # -- the first step

    def _first_step(self) -> PageStep | None:
        """Return the first step: the first page, or the one after the checkpoint; None if nothing is left to fetch."""
        stopped = Checkpoint.of(self.ctx.checkpoint)
        if stopped is None or stopped.source != self._fingerprint:
            return self._first
        was_released = stopped.attempt == self.ctx.attempt
        if not was_released and not self.source.execution.resume:
            return self._first
        if was_released:
            self.count = FetchCounters(**stopped.counters)
        self._staged, self._published = stopped.staged, stopped.published
        if stopped.next is not None:
            self.ctx.log.info("Fetch resumed", page=stopped.next.number)
        return stopped.next

    async def _staged_step(self, step: PageStep | None) -> PageStep | None:
        """Return the first step; the first page, if the stage has not the rows of the pages before it."""
        if not self.source.target.is_staged or self._published:
            return step
        try:
            if await asyncio.to_thread(self._table.stage, self._staged):
                return step
        except (Invalid, StoreError) as error:
            raise failure(error, 1) from None
        self.count, self._staged = FetchCounters(), 0
        return self._first

    async def _open(self) -> None:
        try:
            await asyncio.to_thread(self._table.open)
            self._first = await self._new_only()
        except (Invalid, StoreError) as error:
            raise failure(error, 1) from None

    async def _new_only(self) -> PageStep | None:
        """Return the first step, with the records that an incremental source asks for; None if it has all."""
        asked = self.source.incremental
        if asked is None:
            return PageStep()
        if asked.by_rows:
            greatest = await asyncio.to_thread(self._table.greatest, asked.column)
            start = asked.start if greatest is None else less_overlap(greatest, asked.column, asked.overlap)
            return PageStep(window=TimeWindow(start)) if start else PageStep()
        window = first_window(asked, await asyncio.to_thread(self._table.state), self._began)
        return None if window is None else PageStep(window=window)

    def _limit_reached(self, step: PageStep) -> bool:
        pages = self.source.limits.pages
        if self.count.pages >= pages:
            self.limited_by = at_limit(self.source, "limits.maxPages", f"{pages} pages", step)
        return bool(self.limited_by)

    # -- a page

    async def _page(self, step: PageStep) -> PageStep | None:
        """Store a page and fetch the next one meanwhile; return the next step."""
        coming, self._coming = self._coming, None
        mapped = await (coming or self._get(step, self.count))
        following = mapped.following
        if following is not None and self._may_fetch_ahead(mapped):
            self._coming = asyncio.create_task(self._get(following, mapped.so_far))
        await asyncio.to_thread(self._store, mapped)
        self.limited_by = mapped.limited_by
        if following is not None and mapped.wait is not None:
            await self._wait_for_api(mapped.wait)
        return following

    async def _get(self, step: PageStep, before: FetchCounters) -> Mapped:
        try:
            self._trail.go(step)
        except DoesNotAdvance as error:
            raise PermanentFailure(f"Page {step.number}: {error}") from None
        most = max(self.source.limits.bytes - before.bytes, 1)
        page = await ask(self.ctx.outgoing, self.source, step, self._credentials, most)
        return await asyncio.to_thread(self._pages.mapped, page, step, before)

    def _may_fetch_ahead(self, mapped: Mapped) -> bool:
        """Return False at a limit, if the API asks for a wait, or if the run is to stop."""
        is_last = mapped.so_far.pages >= self.source.limits.pages or bool(mapped.limited_by)
        return not is_last and mapped.wait is None and not self.ctx.cancelled

    async def _cancel_next_page(self) -> None:
        coming, self._coming = self._coming, None
        if coming is None:
            return
        coming.cancel()
        await asyncio.wait([coming])
        if not coming.cancelled() and coming.exception() is None:
            coming.result().files.close()

    async def _wait_for_api(self, wait: timedelta) -> None:
        """Wait as the API asks; raise Defer for a long wait, which the run spends in the queue."""
        if wait > LONGEST_WAIT:
            self._report()
            raise Defer(wait)
        await asyncio.sleep(wait.total_seconds())

    def _store(self, mapped: Mapped) -> None:
        """Store a page with the checkpoint of the next one. It runs on a thread."""
        before = self.count

        def checkpoint(stored: Stored) -> object:
            return self._checkpoint(mapped.following, mapped.stored(before, stored.written), stored.staged)

        try:
            with mapped.files:
                stored = self._table.store(mapped.chunks, checkpoint, mapped.state)
        except LeaseLost:
            raise
        except OstinatoError as error:
            raise failure(error, mapped.step.number) from None
        self.count = mapped.stored(before, stored.written)
        self._staged += stored.staged

    def _checkpoint(self, step: PageStep | None, count: FetchCounters, staged: int, published: bool = False) -> object:
        made = Checkpoint(
            step, self._fingerprint, self.ctx.attempt, asdict(count), self._staged + staged, published=published
        )
        return made.to_json()

    async def _publish(self) -> None:
        """Make the table equal to the stage, once every page is on it."""
        if not self.source.target.is_staged or self._published:
            return
        before = self.count

        def counted(stored: Stored) -> FetchCounters:
            found = stored.written
            if self.source.write.mode is WriteMode.REPLACE:
                accepted = before.items_crawled - before.rejected - before.ignored
                found = found.plus(RowChanges(unchanged=accepted - found.inserted - found.updated))
            return before.after(before, found)

        def publish() -> Stored:
            most = 1.0 if self._allow_deletions else self.source.limits.deleted
            return self._table.publish(lambda stored: self._checkpoint(None, counted(stored), 0, published=True), most)

        try:
            self.count = counted(await asyncio.to_thread(publish))
        except LeaseLost:
            raise
        except OstinatoError as error:
            raise failure(error, before.pages) from None
        self._report()

    def _report(self) -> None:
        count = self.count
        self.ctx.count_items(count.items_crawled, count.items_indexed)
        self.ctx.count(
            pages=count.pages, requests=count.requests, bytes=count.bytes, duplicates=count.duplicates,
            inserted=count.inserted, updated=count.updated, unchanged=count.unchanged, deleted=count.deleted,
            rejected=count.rejected, ignored=count.ignored,
        )  # fmt: skip
        changes = [(count.inserted, "new"), (count.updated, "updated"), (count.deleted, "deleted")]
        told = ", ".join(f"{number} {word}" for number, word in changes if number or word == "new")
        self.ctx.progress(count.pages, message=f"{count.pages} pages, {count.items_crawled} records, {told}")


SHOWN_ROWS = 100  # rows and rejections


@dataclass(slots=True)
class Tried:
    """The result of testing the first page of a source."""

    columns: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)  # the first rows, without their hash
    records: int = 0
    distinct: int = 0  # distinct rows
    rejected: list[Rejection] = field(default_factory=list)
    bytes: int = 0
    requests: int = 0
    more: bool = False  # there is a next page


def _first_window(source: Source, now: datetime) -> TimeWindow | None:
    """Return what the first run of a source asks for."""
    asked = source.incremental
    if asked is None:
        return None
    return TimeWindow(asked.start or None) if asked.by_rows else first_window(asked, None, now)


async def try_source(source: Source, outgoing: Outgoing, now: datetime) -> Tried:
    """Fetch and map one page; raise the same failures as a run."""
    tried = Tried(tuple(each.column.name for each in source.response.fields))
    first = PageStep(window=_first_window(source, now))
    page = await ask(outgoing, source, first, Credentials(source.auth), source.limits.bytes)
    tried.bytes, tried.requests = page.size, page.requests
    hashes = set()
    try:
        records, mapper = read(page, source), Mapper(source)
        for chunk in records.chunks:
            for row in mapper.rows(chunk, first.number, tried.rejected, tried.records):
                hashes.add(row[-1])
                if len(tried.rows) < SHOWN_ROWS:
                    tried.rows.append(row[: len(tried.columns)])
            tried.records += len(chunk)
        tried.distinct = len(hashes)
        tried.more = next_step(source.paging, first, records.seen, page.url) is not None
    except OstinatoError as error:
        raise failure(error, first.number) from None
    finally:
        page.close()
    return tried
