"""A run of a source: page after page until there is none, each stored as it comes.

Wherever it is stopped (cancelled, timed out, its worker stopping or killed) the pages before are stored whole, and of
the one under way nothing is. Whoever tries again begins with the first page, since the API may have changed, unless
the source says `resume: true`; a run that was only handed back (its worker stopped, or a provider's budget was used
up) goes on where it was, because starting over would never end.
"""

import asyncio
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from typing import Any, Final

from ostinato.core.errors import Invalid, LeaseLost, OstinatoError, StoreError
from ostinato.core.payload import encode
from ostinato.core.sources import read_source
from ostinato.core.sources.converting import less_overlap
from ostinato.core.sources.paging import Checkpoint, DoesNotAdvance, PageStep, Trail
from ostinato.outgoing import Credentials
from ostinato.task import Context, Defer, GiveUp
from ostinato.tasks.fetch.errors import PermanentFailure, failure
from ostinato.tasks.fetch.mapped import FetchCounters, Mapped, PageReader, at_limit
from ostinato.tasks.fetch.page import ask

LONGEST_WAIT: Final = timedelta(seconds=30)  # that a run waits where it is
A_CANCEL: Final = 30.0  # seconds until one that was asked for has certainly come


class SourceRun:
    """One run of a source."""

    def __init__(self, ctx: Context, written: dict[str, Any]) -> None:
        try:
            self.source = read_source(written)
        except Invalid as error:
            raise GiveUp(f"The definition of this source cannot be used: {error}") from None
        if not self.source.active:
            raise GiveUp(f"The source {self.source.name} is {self.source.status}: only an active one runs.")
        self.ctx = ctx
        self.count = FetchCounters()
        self.limited_by = ""
        target = self.source.target
        self._pages = PageReader(self.source, partial(ctx.pack_rows, target), partial(ctx.has_stored, target))
        self._credentials = Credentials(self.source.auth)
        self._trail = Trail()
        self._more: list[tuple[str, str]] = []  # parameters that ask for what is new
        self._coming: asyncio.Task[Mapped] | None = None  # the next page, on its way
        self._fingerprint = blake2b(encode(written).encode(), digest_size=8).hexdigest()

    async def go(self) -> dict[str, Any]:
        ctx, source = self.ctx, self.source
        try:
            await asyncio.to_thread(ctx.open_table, source.target)
            self._more = await self._what_is_new()
        except (Invalid, StoreError) as error:
            raise failure(error, 1) from None
        step = self._first_step()
        try:
            while step is not None and not self._enough(step):
                step = await self._page(step)
                self._tell()
        finally:
            await self._look_no_further()
        if self.limited_by:
            ctx.log.warning(
                f"There is more than {self.limited_by} allows: the rest was left", source=source.name
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

    # -- where to begin

    def _first_step(self) -> PageStep | None:
        """The first page, or where this occurrence stopped before; None if it had fetched everything by then."""
        stopped = Checkpoint.of(self.ctx.checkpoint)
        if stopped is None or stopped.source != self._fingerprint:
            return PageStep()
        handed_back = stopped.attempt == self.ctx.attempt
        if not handed_back and not self.source.execution.resume:
            return PageStep()
        if handed_back:
            self.count = FetchCounters(**stopped.counters)
        if stopped.next is not None:
            self.ctx.log.info("Going on where it stopped", page=stopped.next.number)
        return stopped.next

    async def _what_is_new(self) -> list[tuple[str, str]]:
        asked = self.source.incremental
        if asked is None:
            return []
        target = self.source.target
        greatest = await asyncio.to_thread(self.ctx.greatest, target, asked.column)
        if greatest is None:
            return [(asked.param, asked.start)] if asked.start else []
        return [(asked.param, less_overlap(greatest, asked.column, asked.overlap))]

    def _enough(self, step: PageStep) -> bool:
        pages = self.source.limits.pages
        if self.count.pages >= pages:
            self.limited_by = at_limit(self.source, "limits.maxPages", f"{pages} pages", step)
        return bool(self.limited_by)

    # -- a page

    async def _page(self, step: PageStep) -> PageStep | None:
        """Take a page, and get the next one while it is stored: a run waits for the slower of the two only."""
        coming, self._coming = self._coming, None
        mapped = await (coming or self._get(step, self.count))
        following = mapped.following
        if following is not None and self._may_look_ahead(mapped):
            self._coming = asyncio.create_task(self._get(following, mapped.so_far))
        try:
            await asyncio.to_thread(self._store, mapped)
        except LeaseLost:
            await self._look_no_further()
            await asyncio.sleep(A_CANCEL)  # if somebody has asked us to stop, that is how this ends
            raise
        self.limited_by = mapped.limited_by
        if following is not None and mapped.wait is not None:
            await self._leave_alone(mapped.wait)
        return following

    async def _get(self, step: PageStep, before: FetchCounters) -> Mapped:
        try:
            self._trail.go(step)
        except DoesNotAdvance as error:
            raise PermanentFailure(f"Page {step.number}: {error}") from None
        most = max(self.source.limits.bytes - before.bytes, 1)
        page = await ask(self.ctx.outgoing, self.source, step, self._credentials, self._more, most)
        return await asyncio.to_thread(self._pages.mapped, page, step, before)

    def _may_look_ahead(self, mapped: Mapped) -> bool:
        """Not where the limits end, nor if the API wants to be left alone first, nor when the run is to stop."""
        is_last = mapped.so_far.pages >= self.source.limits.pages or bool(mapped.limited_by)
        return not is_last and mapped.wait is None and not self.ctx.cancelled

    async def _look_no_further(self) -> None:
        coming, self._coming = self._coming, None
        if coming is None:
            return
        coming.cancel()
        await asyncio.wait([coming])
        if not coming.cancelled() and coming.exception() is None:
            coming.result().files.close()

    async def _leave_alone(self, wait: timedelta) -> None:
        """The API has said that nothing is left for now: a long wait is better spent in the queue."""
        if wait > LONGEST_WAIT:
            self._tell()
            raise Defer(wait)
        await asyncio.sleep(wait.total_seconds())

    def _store(self, mapped: Mapped) -> None:
        """Store a page together with where its run goes on. On a thread."""
        before = self.count

        def checkpoint(new: int) -> object:
            counters = asdict(mapped.stored(before, new))
            return Checkpoint(mapped.following, self._fingerprint, self.ctx.attempt, counters).to_json()

        try:
            with mapped.files:
                new = self.ctx.store_page(self.source.target, mapped.chunks, checkpoint)
        except LeaseLost:
            raise
        except OstinatoError as error:
            raise failure(error, mapped.step.number) from None
        self.count = mapped.stored(before, new)

    def _tell(self) -> None:
        count = self.count
        self.ctx.count_items(count.items_crawled, count.items_indexed)
        self.ctx.count(
            pages=count.pages, requests=count.requests, bytes=count.bytes, duplicates=count.duplicates,
            rejected=count.rejected,
        )  # fmt: skip
        self.ctx.progress(
            count.pages,
            message=f"{count.pages} pages, {count.items_crawled} records, {count.items_indexed} new",
        )
