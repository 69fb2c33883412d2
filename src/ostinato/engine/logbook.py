"""The log book of a worker: output and log lines of its runs, and reports of runs that take long.

A run never waits to write a line. The line is buffered here, on the loop or on a thread, and goes to the store with
many others a few times a second. It also goes before its execution is settled, so that the log of an ended execution is
complete. The buffer is bounded: beyond its limits lines are lost, and one line says how many. Once a run has written as
much as is stored of one execution, further lines are only counted.

Echo copies the first output lines of runs in processes to the worker's own log. Each line takes the loop 50 µs: a
million lines would block it for a minute, and the log of the execution has all of them.
"""

import asyncio
import logging
import sys
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from threading import RLock, get_ident
from typing import Any, Final, TextIO, cast
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.model import Chance, Claimed, Event, Live
from ostinato.core.payload import LogMessage, encode
from ostinato.core.read_models import Stream
from ostinato.isolation.plan import CUT, OUTPUT, WrittenLine, to_logging
from ostinato.store.logs import LogLine, size_of
from ostinato.store.store import Store
from ostinato.task import Context
from ostinato.task.context import KEPT
from ostinato.telemetry.reports import Telemetry

FLUSH_EVERY: Final = 0.25  # seconds
MUCH: Final = 64 * 1024  # bytes: more than this is flushed at once
LINES_OF_A_TRANSACTION: Final = 5_000  # lines of one transaction
LONGEST_LINE: Final = 32 * 1024  # characters: a longer line is split
OVERHEAD: Final = 256  # bytes in memory per line, beside its text
MOST_OF_ONE: Final = 64 * 1024 * 1024  # bytes in memory per execution
MOST_WAITING: Final = 2 * MOST_OF_ONE
MOST_PAGES: Final = 20_000  # executions: threads may still write after their run has ended
GRAVEST: Final = 1000

InStore = Callable[[Callable[[], None]], Awaitable[None]]
Part = tuple[Stream, int]  # a line that a thread has begun on a stream


@dataclass(slots=True)
class _Page:
    """The log of one run in memory: its size, waiting lines, and unfinished lines."""

    taken: int = 0
    waiting: int = 0
    lost: int = 0
    begun: dict[Part, str] = field(default_factory=dict)


class LogBook:
    """Buffer of log lines from any thread; call `wait` and `flush` on the loop that made it."""

    def __init__(self, store: Store, clock: Clock, in_store: InStore, keep: int) -> None:
        """`keep`: maximum bytes stored per execution; 0 stores none."""
        self._store, self._clock, self._in_store, self._keep = store, clock, in_store, keep
        self._loop = asyncio.get_running_loop()
        self._lock = RLock()  # reentrant: the garbage collector may run here, and a finaliser may print
        self._lines: deque[LogLine] = deque()
        self._queued: Counter[UUID] = Counter()  # waiting lines per execution
        self._cut: dict[UUID, int] = {}
        self._waiting = 0  # bytes in memory
        self._woken = 0  # wake-ups since the last flush
        self._some, self._much = asyncio.Event(), asyncio.Event()
        self._turn = asyncio.Lock()
        self.pages: dict[UUID, _Page] = {}

    # -- writing: on any thread

    def record(self, execution_id: UUID, level: int, said: object) -> None:
        """Add a log record of a run."""
        if self._keep:
            self._put(execution_id, level, Stream.LOG, str(said))

    def printed(self, execution_id: UUID, stream: str, text: str) -> None:
        """Add text that a run prints here. Lines are assembled per thread."""
        if not self._keep:
            return
        with self._lock:
            begun, part = self._page(execution_id).begun, (Stream(stream), get_ident())
            *lines, rest = (begun.pop(part, "") + text).split("\n")
            if len(rest) > LONGEST_LINE:
                lines, rest = [*lines, rest], ""
            if rest:
                begun[part] = rest
            for line in lines:
                self._put(execution_id, logging.INFO, part[0], line.removesuffix("\r"))

    def written(self, line: WrittenLine) -> None:
        """Add a line that a run in a process wrote."""
        if line.execution_id is None or not self._keep:
            return
        if line.stream == CUT:
            with self._lock:
                self._count_cut(line.execution_id, int(line.text))
        else:
            self._put(line.execution_id, line.level, Stream(line.stream), line.text)

    def ended(self, execution_id: UUID) -> None:
        """End the unfinished lines of a run that is over."""
        with self._lock:
            page = self.pages.get(execution_id)
            if page is None:
                return
            for (stream, _), text in page.begun.items():
                self._put(execution_id, logging.INFO, stream, text)
            self._add_lost(execution_id, page)
            del self.pages[execution_id]

    def _page(self, execution_id: UUID) -> _Page:
        page = self.pages.get(execution_id)
        if page is None:
            page = self.pages[execution_id] = _Page()
            if len(self.pages) > MOST_PAGES:
                del self.pages[next(iter(self.pages))]
        return page

    def _put(self, execution_id: UUID, level: int, stream: Stream, text: str) -> None:
        at, grave, whole = self._clock.now(), max(0, min(level, GRAVEST)), _storable(text)
        with self._lock:
            for begin in range(0, len(whole) or 1, LONGEST_LINE):
                piece = whole[begin : begin + LONGEST_LINE]
                self._add(LogLine(execution_id, at, grave, stream, piece, size_of(piece)))

    def _add(self, line: LogLine) -> None:
        page, weight = self._page(line.execution_id), line.size + OVERHEAD
        page.taken += line.size
        if page.taken > self._keep:
            self._count_cut(line.execution_id, line.size)
        elif page.waiting + weight > MOST_OF_ONE or self._waiting + weight > MOST_WAITING:
            page.lost += 1
        else:
            self._add_lost(line.execution_id, page)
            self._take_down(line, page)

    def _add_lost(self, execution_id: UUID, page: _Page) -> None:
        """Add a line that says how many lines were lost."""
        if page.lost:
            said = f"… {page.lost:,} lines were lost here: they came faster than they could be stored …"
            lost, page.lost = (
                LogLine(execution_id, self._clock.now(), logging.WARNING, Stream.LOG, said, 0),
                0,
            )
            self._take_down(lost, page)

    def _take_down(self, line: LogLine, page: _Page) -> None:
        page.waiting += line.size + OVERHEAD
        self._waiting += line.size + OVERHEAD
        self._queued[line.execution_id] += 1
        self._lines.append(line)
        self._wake()

    def _count_cut(self, execution_id: UUID, size: int) -> None:
        self._cut[execution_id] = self._cut.get(execution_id, 0) + size
        self._wake()

    def _wake(self) -> None:
        events = [self._some, self._much][: 2 if self._waiting >= MUCH else 1]
        while self._woken < len(events):
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(events[self._woken].set)
            self._woken += 1

    # -- flushing: on the loop

    @property
    def is_empty(self) -> bool:
        """Return True if no line waits and no write is under way."""
        return not self._lines and not self._cut and not self._turn.locked()

    async def wait(self) -> None:
        """Wait until a flush is due: a while after the first line, or at once when the buffer is large."""
        await self._some.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_EVERY):
                await self._much.wait()
        with self._lock:
            self._woken = 0
            self._some.clear()
            self._much.clear()

    async def flush(self) -> None:
        """Store the buffered lines. Lines that cannot be stored now wait for the next flush."""
        async with self._turn:
            left = len(self._lines)
            while left > 0 or self._cut.keys() - self._queued.keys():
                lines, cut = self._take()
                left -= len(lines)
                await self._keep_in_store(lines, cut)

    async def _keep_in_store(self, lines: list[LogLine], cut: dict[UUID, int]) -> None:
        keeping = asyncio.ensure_future(self._in_store(lambda: self._store.logs.append(lines, cut, self._keep)))
        try:
            await asyncio.shield(keeping)
        except asyncio.CancelledError:  # the write goes on in its thread
            keeping.add_done_callback(lambda done: self._kept_late(done, lines, cut))
            raise
        except BaseException:
            self._put_back(lines, cut)
            raise

    def _kept_late(self, done: asyncio.Future[None], lines: Sequence[LogLine], cut: dict[UUID, int]) -> None:
        if not done.cancelled() and done.exception() is not None:
            self._put_back(lines, cut)

    def _take(self) -> tuple[list[LogLine], dict[UUID, int]]:
        with self._lock:
            lines = [self._lines.popleft() for _ in range(min(LINES_OF_A_TRANSACTION, len(self._lines)))]
            self._weigh(lines, -1)
            # Never before the last line that fits: after a cut the store keeps no more lines.
            cut = {each: self._cut.pop(each) for each in self._cut.keys() - self._queued.keys()}
        return lines, cut

    def _put_back(self, lines: Sequence[LogLine], cut: dict[UUID, int]) -> None:
        with self._lock:
            self._lines.extendleft(reversed(lines))
            self._weigh(lines, 1)
            for execution_id, size in cut.items():
                self._count_cut(execution_id, size)
            self._wake()

    def _weigh(self, lines: Sequence[LogLine], sign: int) -> None:
        for line in lines:
            weight = sign * (line.size + OVERHEAD)
            self._waiting += weight
            self._queued[line.execution_id] += sign
            if not self._queued[line.execution_id]:
                del self._queued[line.execution_id]
            if (page := self.pages.get(line.execution_id)) is not None:
                page.waiting += weight


def _storable(text: str) -> str:
    """Remove what no database accepts: NUL and unpaired surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "backslashreplace").decode()
    return text.replace("\0", "\\x00")


MOST_ECHOED: Final = 1000  # lines per run


class Echo:
    """Copy of output lines to the worker's log, up to a number of lines per run."""

    def __init__(self, most: int | None = MOST_ECHOED) -> None:
        """`most` None: no limit, since no log stores them."""
        self._most = most
        self._shown: dict[UUID, int] = {}

    def show(self, line: WrittenLine) -> None:
        if self._most is None or line.execution_id is None or line.stream == CUT:
            to_logging(line)
            return
        shown = self._shown[line.execution_id] = self._shown.get(line.execution_id, 0) + 1
        if shown <= self._most:
            to_logging(line)
        elif shown == self._most + 1 and OUTPUT.isEnabledFor(logging.INFO):
            OUTPUT.info(LogMessage("The rest is in the log of the execution", {"execution_key": line.execution_key}))

    def ended(self, execution_id: UUID) -> None:
        self._shown.pop(execution_id, None)


# -- Capture of the output and log records of runs in this process; both still reach their targets.
#
# A record or text belongs to the run in whose context it is written: an asyncio task, a worker's thread, or code that
# copies the context (`asyncio.to_thread`). A bare `threading.Thread` has no such context: its output belongs to no run.


@contextmanager
def captured() -> Iterator[None]:
    """Capture what runs print and log while this context is open. Enter it after logging is configured."""
    with ExitStack() as undo:
        handler = _RunLogHandler()
        logging.getLogger().addHandler(handler)
        undo.callback(logging.getLogger().removeHandler, handler)
        for name in ("stdout", "stderr"):
            undo.enter_context(_seen(name))
        yield


@contextmanager
def _seen(name: str) -> Iterator[None]:
    """Pass a stream of `sys` through a CapturedStream."""
    stream: TextIO | None = getattr(sys, name)
    if stream is None:  # the process has no such stream
        yield
        return
    between = _CapturedStream(stream, name)
    setattr(sys, name, cast(TextIO, between))
    try:
        yield
    finally:
        if getattr(sys, name) is between:
            setattr(sys, name, stream)


class _RunLogHandler(logging.Handler):
    """Log handler that adds the records of a run to the run's log."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Handle a record without the handler's lock: most records belong to no run, and the rest may come from any
        thread."""
        context = Context.current()
        if context is not None and not hasattr(record, KEPT):
            context.keep_record(record.levelno, self.format(record))
        return True


class _CapturedStream:
    """Wrapper of a stream that copies its text to the log of the run; all else is passed to the stream.

    A full device or a closed pipe fails no run: the log of the run still gets the text.
    """

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream, self._name = stream, name

    def write(self, text: str) -> int:
        context = Context.current()
        if context is not None:
            context.keep_printed(self._name, text)
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


# -- Reports of runs without a timeout that take far longer than usual: one for each run

FACTOR: Final = 10
SHORTEST: Final = timedelta(seconds=10)  # shorter runs are never reported
RUNS_NEEDED: Final = 3  # completed runs needed to know the usual duration
LOOKED_AT: Final = 20


@dataclass(frozen=True, slots=True)
class RunUnderWay:
    """A run under way and its duration so far."""

    live: Live
    ran: timedelta


def long_runs(began: Iterable[tuple[Claimed, float]], now: float) -> list[RunUnderWay]:
    """Select the runs that may have taken too long; each comes with its start time in seconds."""
    return [
        RunUnderWay(claimed.live, ran)
        for claimed, at in began
        if (ran := timedelta(seconds=now - at)) >= SHORTEST
        and claimed.definition.policies.timeout is None
        and not claimed.live.step  # usual durations are known for whole runs only
    ]


def limit(durations: Sequence[timedelta]) -> timedelta | None:
    """Return the duration above which a run is reported; None without enough history."""
    if len(durations) < RUNS_NEEDED:
        return None
    return max(FACTOR * sorted(durations)[len(durations) // 2], SHORTEST)


class LongRuns:
    """The usual durations of one worker's runs, and the runs already reported."""

    def __init__(self, store: Store, clock: Clock, chance: Chance, telemetry: Telemetry) -> None:
        self._store, self._clock, self._chance, self._telemetry = store, clock, chance, telemetry
        self._limits: dict[UUID, timedelta | None] = {}
        self._reported: set[UUID] = set()

    def look(self, runs: Collection[RunUnderWay]) -> None:
        """Report runs that exceed their limit."""
        under_way = {run.live.id for run in runs}
        self._limits = {run_id: most for run_id, most in self._limits.items() if run_id in under_way}
        self._reported &= under_way
        for run in runs:
            most = self._limit_of(run)
            if most is not None and run.ran > most and run.live.id not in self._reported:
                self._report(run, most / FACTOR)

    def _limit_of(self, run: RunUnderWay) -> timedelta | None:
        if run.live.id not in self._limits:
            self._limits[run.live.id] = limit(self._store.history.durations(run.live.job_id, LOOKED_AT))
        return self._limits[run.live.id]

    def _report(self, run: RunUnderWay, usual: timedelta) -> None:
        now, live = self._clock.now(), run.live
        data = {"number": live.number, "ran": run.ran.total_seconds(), "usual": usual.total_seconds()}
        event = Event(
            self._chance.id(now),
            now,
            "execution.overlong",
            live.job_id,
            live.id,
            live.worker_id,
            data=encode(data),
        )
        self._store.history.tell([event])
        self._reported.add(live.id)  # only now: if the store is unavailable, the report is tried again
        self._telemetry.overlong(live, run.ran, usual)
