"""A run of a source: page after page until there is none, each stored as it comes.

Wherever it is stopped (cancelled, timed out, its worker stopping or killed) the pages before are stored whole, and of
the one under way nothing is. Whoever tries again begins with the first page, since the API may have changed, unless
the source says `resume: true`; a run that was only handed back (its worker stopped, or a provider's budget was used
up) goes on where it was, because starting over would never end.
"""

import asyncio
import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from hashlib import blake2b
from typing import IO, Any, Final

from ostinato.core.errors import Invalid, LeaseLost, OstinatoError, StoreError
from ostinato.core.payload import encode
from ostinato.core.sources import read_source
from ostinato.core.sources.converting import less_overlap
from ostinato.core.sources.definition import OnLimit, PagingKind
from ostinato.core.sources.mapping import Mapper, Rejection
from ostinato.core.sources.paging import Checkpoint, DoesNotAdvance, Step, Trail, next_step
from ostinato.core.tables import Row
from ostinato.outgoing import Credentials
from ostinato.task import Context, Defer, GiveUp
from ostinato.tasks.fetch.errors import PermanentFailure, failure
from ostinato.tasks.fetch.page import Page, ask
from ostinato.tasks.fetch.reading import Records, read

KEPT: Final = 20  # rejected records that are shown
PATIENCE: Final = timedelta(seconds=30)  # that a run waits where it is
A_CANCEL: Final = 30.0  # seconds until one that was asked for has certainly come


@dataclass(slots=True)
class Counters:
    """What a run has done so far."""

    pages: int = 0
    requests: int = 0
    bytes: int = 0
    items_crawled: int = 0  # records seen
    items_indexed: int = 0  # new rows
    duplicates: int = 0
    rejected: int = 0


@dataclass(slots=True)
class Mapped:
    """The rows of a page, before they are stored."""

    chunks: Iterable[list[Row]]  # to be gone through as often as one likes
    offered: int
    rejected: list[Rejection]
    seen: int = 0  # records
    following: Step | None = None  # the next page
    files: ExitStack = field(default_factory=ExitStack)  # where large ones are


class Spooled:
    """Rows in a file, a chunk on each line."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def __iter__(self) -> Iterator[list[Row]]:
        self._file.seek(0)
        for line in self._file:
            yield [(*cells, bytes.fromhex(of)) for *cells, of in json.loads(line)]


class Run:
    """One run of a source."""

    def __init__(self, ctx: Context, written: dict[str, Any]) -> None:
        try:
            self.source = read_source(written)
        except Invalid as error:
            raise GiveUp(f"The definition of this source cannot be used: {error}") from None
        if not self.source.active:
            raise GiveUp(f"The source {self.source.name} is {self.source.status}: only an active one runs.")
        self.ctx = ctx
        self.count = Counters()
        self.rejections: list[Rejection] = []
        self.limited_by = ""
        self._mapper = Mapper(self.source)
        self._credentials = Credentials(self.source.auth)
        self._trail = Trail()
        self._more: list[tuple[str, str]] = []  # parameters that ask for what is new
        self._coming: asyncio.Task[Page] | None = None  # the next page, on its way
        self._last: object = None  # the records of the page before, or their digest
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
            while step is not None and not self._enough(step, self.count.pages):
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
        """What the run came to."""
        found: dict[str, Any] = {"table": self.source.table, **asdict(self.count)}
        if self.rejections:
            found["rejections"] = [asdict(each) for each in self.rejections]
        if self.limited_by:
            found["limited_by"] = self.limited_by
        return found

    # -- where to begin

    def _first_step(self) -> Step | None:
        """The first page, or where this occurrence stopped before; None if it had fetched everything by then."""
        stopped = Checkpoint.of(self.ctx.checkpoint)
        if stopped is None or stopped.source != self._fingerprint:
            return Step()
        handed_back = stopped.attempt == self.ctx.attempt
        if not handed_back and not self.source.execution.resume:
            return Step()
        if handed_back:
            self.count = Counters(**stopped.counters)
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

    def _enough(self, step: Step, pages: int) -> bool:
        limits = self.source.limits
        if pages < limits.pages:
            return bool(self.limited_by)
        self._at_limit("limits.maxPages", f"{limits.pages} pages", step)
        return True

    def _at_limit(self, name: str, what: str, step: Step) -> None:
        if self.source.limits.then is OnLimit.FAIL:
            raise PermanentFailure(
                f"Page {step.number}: there is more than {name} allows ({what}); what was fetched is stored. "
                "Allow more, or say limits.onLimit: stop."
            )
        self.limited_by = name

    # -- a page

    async def _page(self, step: Step) -> Step | None:
        """Take a page, and while it is stored ask for the next one: a run waits for the slower of the two only."""
        page = await self._asked(step)
        self.count.requests += page.requests
        self.count.bytes += page.size
        mapped = await asyncio.to_thread(self._mapped, page, step)
        following = mapped.following
        if following is not None and page.wait is None and self._may_look_ahead():
            self._coming = asyncio.create_task(self._ask(following))
        try:
            await asyncio.to_thread(self._store, mapped, step)
        except LeaseLost:
            await self._look_no_further()
            await asyncio.sleep(A_CANCEL)  # if somebody has asked us to stop, that is how this ends
            raise
        if following is not None and page.wait is not None:
            await self._leave_alone(page.wait)
        return following

    async def _asked(self, step: Step) -> Page:
        coming, self._coming = self._coming, None
        return await (coming or self._ask(step))

    async def _ask(self, step: Step) -> Page:
        try:
            self._trail.go(step)
        except DoesNotAdvance as error:
            raise PermanentFailure(f"Page {step.number}: {error}") from None
        most = max(self.source.limits.bytes - self.count.bytes, 1)
        return await ask(self.ctx.outgoing, self.source, step, self._credentials, self._more, most)

    def _may_look_ahead(self) -> bool:
        """Not where this page is the last one that the limits allow, nor when the run is to stop."""
        return (
            self.count.pages + 1 < self.source.limits.pages and not self.limited_by and not self.ctx.cancelled
        )

    async def _look_no_further(self) -> None:
        coming, self._coming = self._coming, None
        if coming is None:
            return
        coming.cancel()
        await asyncio.wait([coming])
        if not coming.cancelled() and coming.exception() is None:
            coming.result().close()

    async def _leave_alone(self, wait: timedelta) -> None:
        """The API has said that nothing is left for now: a long wait is better spent in the queue."""
        if wait > PATIENCE:
            self._tell()
            raise Defer(wait)
        await asyncio.sleep(wait.total_seconds())

    def _mapped(self, page: Page, step: Step) -> Mapped:
        """Read and map a page, and see which one is next. On a thread."""
        try:
            with ExitStack() as files:
                records = read(page, self.source)
                self._require_progress(records, step)
                mapped = self._rows(records, step, files)
                mapped.seen = records.seen.records
                mapped.following = next_step(self.source.paging, step, records.seen, page.url)
                self._require_few_rejected(mapped)
                mapped.files = files.pop_all()
            return mapped
        except OstinatoError as error:
            raise failure(error, step.number) from None
        finally:
            page.close()

    def _require_progress(self, records: Records, step: Step) -> None:
        if self.source.paging.kind is PagingKind.NONE or records.whole is None:
            return
        if records.whole and records.whole == self._last:
            raise DoesNotAdvance(f"page {step.number} is the same as the page before it.")
        self._last = records.whole

    def _rows(self, records: Records, step: Step, files: ExitStack) -> Mapped:
        if records.whole is None:
            return self._spooled(records, step, files)
        rejected: list[Rejection] = []
        rows = self._mapper.rows(self._cut(records.whole, step), step.number, rejected)
        return Mapped([rows], len(rows), rejected)

    def _spooled(self, records: Records, step: Step, files: ExitStack) -> Mapped:
        """The rows of a large page, in a file: its transaction is to be short, and memory flat."""
        made = tempfile.TemporaryFile("w+", encoding="utf-8", prefix="ostinato-")  # noqa: SIM115
        spool = files.enter_context(made)
        rejected: list[Rejection] = []
        seen = offered = 0
        digest = blake2b(digest_size=16)
        for chunk in records.chunks:
            given = self._cut(chunk, step, seen)
            rows = self._mapper.rows(given, step.number, rejected, seen)
            del rejected[10_000:]
            seen += len(given)
            offered += len(rows)
            line = json.dumps(rows, default=bytes.hex)  # of the hash, which is the last
            digest.update(line.encode())
            spool.write(line + "\n")
        if seen and self._last == digest.digest():
            raise DoesNotAdvance(f"page {step.number} is the same as the page before it.")
        self._last = digest.digest()
        return Mapped(Spooled(spool), offered, rejected)

    def _cut(self, records: list[Any], step: Step, seen: int = 0) -> list[Any]:
        room = self.source.limits.records - self.count.items_crawled - seen
        if len(records) <= room:
            return records
        self._at_limit("limits.maxRecords", f"{self.source.limits.records} records", step)
        return records[: max(room, 0)]

    def _require_few_rejected(self, mapped: Mapped) -> None:
        if self.limited_by:
            mapped.seen = mapped.offered + len(mapped.rejected)
        crawled, rejected = self.count.items_crawled + mapped.seen, self.count.rejected + len(mapped.rejected)
        self.rejections += mapped.rejected[: KEPT - len(self.rejections)]
        if rejected > self.source.limits.rejected * crawled:
            raise PermanentFailure(self._too_many(rejected, crawled))

    def _store(self, mapped: Mapped, step: Step) -> None:
        """Store a page together with where its run goes on. On a thread."""
        after = replace(
            self.count,
            pages=self.count.pages + 1,
            items_crawled=self.count.items_crawled + mapped.seen,
            rejected=self.count.rejected + len(mapped.rejected),
        )
        where = Checkpoint(mapped.following, self._fingerprint, self.ctx.attempt, asdict(after))
        try:
            with mapped.files:
                new = self.ctx.store_page(self.source.target, mapped.chunks, where.to_json())
        except LeaseLost:
            raise
        except OstinatoError as error:
            raise failure(error, step.number) from None
        after.items_indexed += new
        after.duplicates += mapped.offered - new
        self.count = after

    def _too_many(self, rejected: int, crawled: int) -> str:
        first = "; ".join(str(each) for each in self.rejections[:3])
        return (
            f"{rejected} of {crawled} records were rejected, more than limits.maxRejected allows "
            f"({self.source.limits.rejected:.0%}): {first}"
        )

    def _tell(self) -> None:
        count = self.count
        self.ctx.count_items(count.items_crawled, count.items_indexed)
        self.ctx.progress(
            count.pages,
            message=f"{count.pages} pages, {count.items_crawled} records, {count.items_indexed} new",
        )
