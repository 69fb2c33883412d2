"""The Context: a task's view of its own run.

A worker hands every run a Context; a plain call outside a worker gets a quiet one, whose log goes to `logging`
and whose progress and checkpoint stay in memory. Code deep inside a task finds it by `Context.current()`.

Progress and checkpoints go through the worker's Desk with the fence of the run: a run whose lease is lost can no
longer write. Its log lines are kept all the same.
"""

import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self
from uuid import UUID, uuid4

from ostinato.clock import SystemClock
from ostinato.core.account import Counters, counted
from ostinato.core.builtin import Permits
from ostinato.core.errors import Invalid
from ostinato.core.model import AskedBy, Definition, Json, Live
from ostinato.core.payload import LogMessage, cut, decode, encode
from ostinato.core.schedule import Manual
from ostinato.core.tables import Cell, MappedColumn, Row, TableState, Target
from ostinato.task.tables import Tables

if TYPE_CHECKING:
    from ostinato.outgoing import Outgoing

PROGRESS_EVERY = 0.25  # seconds
MESSAGE_LIMIT = 1000
ITEMS: Final = ("items_crawled", "items_indexed")  # counters that executions show under these names
KEPT: Final = "ostinato_kept"  # a log record has this when it is in the log of its execution already

_LOGGER = logging.getLogger("ostinato.task")


class RunHost(Protocol):
    """The worker's side of a Context: it receives progress, checkpoints and log lines."""

    @property
    def outgoing(self) -> "Outgoing":
        """The one safe way out, on the worker's loop."""

    @property
    def permits(self) -> Permits:
        """Permissions of built-in tasks, set by the worker's administrator."""

    def report_progress(self, execution_id: UUID, fence: int, progress: Json) -> None:
        """Keep the latest progress. Called on the loop and on threads: it must not block, and never fails."""

    def save_checkpoint(self, execution_id: UUID, fence: int, checkpoint: Json) -> None:
        """Return when it is kept; LeaseLost when this run may write no more."""

    @property
    def tables(self) -> Tables:
        """Tables of users, for tasks that store records."""

    def crawl_turn(self, live: Live, turn: Json) -> Json:
        """Keep what a crawl did, under its fence, and say what comes next; LeaseLost when it may write no more."""

    def keep_record(self, execution_id: UUID, level: int, said: object) -> bool:
        """Keep a line of the execution's log; whether anybody does. Called anywhere: it must not block, nor fail."""

    def keep_printed(self, execution_id: UUID, stream: str, text: str) -> None:
        """The same for a part of what it prints."""


class QuietHost:
    """The desk of a Context outside a worker: it has no receiver."""

    @property
    def outgoing(self) -> "Outgoing":
        raise Invalid("Only a task that runs in a worker, on its loop, can call others from here.")

    @property
    def permits(self) -> Permits:
        return Permits()

    def report_progress(self, execution_id: UUID, fence: int, progress: Json) -> None:
        pass

    def save_checkpoint(self, execution_id: UUID, fence: int, checkpoint: Json) -> None:
        pass

    @property
    def tables(self) -> Tables:
        raise Invalid("Only a task that runs in a worker can write to tables from here.")

    def crawl_turn(self, live: Live, turn: Json) -> Json:
        raise Invalid("Only a crawl that runs in a worker has anybody to keep its pages.")

    def keep_record(self, execution_id: UUID, level: int, said: object) -> bool:
        return False

    def keep_printed(self, execution_id: UUID, stream: str, text: str) -> None:
        pass


class Progress(NamedTuple):
    """The progress of a run."""

    done: float
    of: float | None
    message: str | None


class Log:
    """Log lines that say whose they are: `ctx.log.info("sending", to=to)`."""

    __slots__ = ("_context", "_fields")

    def __init__(self, context: "Context", fields: dict[str, object]) -> None:
        self._context, self._fields = context, fields

    def debug(self, event: str, /, **fields: object) -> None:
        self._tell(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        self._tell(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        self._tell(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        self._tell(logging.ERROR, event, fields)

    def _tell(self, level: int, event: str, fields: dict[str, object]) -> None:
        """Into the log of the execution, where its names would only be noise, and to `logging`."""
        shown = _LOGGER.isEnabledFor(level)
        if not shown and level < logging.INFO:
            return
        kept = self._context.keep_record(level, LogMessage(event, fields))
        if shown:
            extra = {KEPT: True} if kept else None
            _LOGGER.log(level, LogMessage(event, fields | self._fields), stacklevel=3, extra=extra)


class Context:
    """One run, as its task sees it."""

    __slots__ = (
        "_checkpoint",
        "_delivered_at",
        "_host",
        "_monotonic",
        "_progress",
        "_undelivered",
        "args",
        "cancelled",
        "counters",
        "definition",
        "items",
        "live",
        "worker",
    )

    def __init__(
        self,
        live: Live,
        definition: Definition,
        args: dict[str, Any],
        worker: str = "",
        host: RunHost = QuietHost(),  # noqa: B008  it holds nothing
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.live = live
        self.definition = definition
        self.args = args
        self.worker = worker
        self.cancelled = False  # True: stop soon (cancelled, timed out, lease lost, worker stopping)
        self.items: tuple[int | None, int | None] = (None, None)  # seen, and new; see `count_items`
        self.counters: Counters | None = None  # see `count`
        self._host = host
        self._monotonic = monotonic
        self._checkpoint = live.checkpoint
        self._progress: Progress | None = None
        self._delivered_at = -math.inf
        self._undelivered = False

    @classmethod
    def quiet(cls, task: str, args: dict[str, Any]) -> Self:
        """A Context for a plain call: an occurrence of its own that no database knows."""
        now = SystemClock().now()
        live = Live(
            id=uuid4(), job_id=uuid4(), number=1, attempt=0, execution_number=1, asked=AskedBy.HAND,
            due_at=now, run_at=now, queued_at=now, queue="default", priority=5, task=task,
        )  # fmt: skip
        return cls(live, Definition(task, Manual()), args)

    @classmethod
    def current(cls) -> "Context | None":
        """The Context of the run that this code is part of, if there is one."""
        return _CURRENT.get()

    def become_current(self) -> None:
        """For the runner: from here on, in this asyncio task or copied context, `current` is this one."""
        _CURRENT.set(self)

    @property
    def task(self) -> str:
        """The task's name."""
        return self.live.task

    @property
    def job_id(self) -> UUID:
        return self.live.job_id

    @property
    def job_key(self) -> str | None:
        return self.definition.key

    @property
    def job_name(self) -> str:
        return self.definition.name or self.definition.key or self.live.task

    @property
    def execution_id(self) -> UUID:
        return self.live.id

    @property
    def number(self) -> int:
        """The occurrence's number in its job, from 1."""
        return self.live.number

    @property
    def attempt(self) -> int:
        """0 for the first try."""
        return self.live.attempt

    @property
    def step(self) -> str:
        """The node of the workflow that it is a step of; empty outside workflows."""
        return self.live.step

    @property
    def execution_number(self) -> int:
        """The number of executions of the job, this one included."""
        return self.live.execution_number

    @property
    def due_at(self) -> datetime:
        """The time that the schedule named; a retry keeps it."""
        return self.live.due_at

    @property
    def occurrence_key(self) -> str:
        """The same for every attempt: send it along to make an effect idempotent."""
        key = f"sched-{self.live.job_id}-n{self.live.number}"
        return f"{key}-{self.live.step}" if self.live.step else key

    @property
    def execution_key(self) -> str:
        """This attempt's own."""
        return f"{self.occurrence_key}-rc{self.live.attempt}"

    @property
    def log(self) -> Log:
        """Log lines that carry this run's names."""
        return Log(self, {"job_id": self.live.job_id, "execution_key": self.execution_key})

    @property
    def outgoing(self) -> "Outgoing":
        """HTTP client of an `async def` task; it checks each address first."""
        return self._host.outgoing

    @property
    def permits(self) -> Permits:
        """Permissions of built-in tasks, set by the worker's administrator."""
        return self._host.permits

    def keep_record(self, level: int, said: object) -> bool:
        """For whoever captures: keep a line of this run's log; whether anybody does."""
        return self._host.keep_record(self.live.id, level, said)

    def keep_printed(self, stream: str, text: str) -> None:
        self._host.keep_printed(self.live.id, stream, text)

    def progress(self, done: float, of: float | None = None, message: str | None = None) -> None:
        """Say how far it has come. As often as you like: a few a second are told, and always the last."""
        if not math.isfinite(done) or (of is not None and not math.isfinite(of)):
            raise Invalid(f"Progress is counted in numbers, and {done} of {of} is not one.")
        self._progress = Progress(done, of, None if message is None else cut(message, MESSAGE_LIMIT))
        self._tell_soon()

    def count_items(self, crawled: int, indexed: int) -> None:
        """Say how many records it has seen so far, and how many were new: shown with the execution, however it ends."""
        self.items = crawled, indexed

    def count(self, **counters: float) -> None:
        """Say what else it has counted so far (`ctx.count(mails=120)`); kept with the execution, however it ends."""
        told = dict(counted(self.counters, counters))
        items = zip(ITEMS, self.items, strict=True)
        crawled, indexed = (int(told.pop(name)) if name in told else before for name, before in items)
        self.items, self.counters = (crawled, indexed), tuple(told.items()) or None
        self._tell_soon()

    @property
    def last_progress(self) -> Progress | None:
        """The latest progress."""
        return self._progress

    def flush_progress(self) -> None:
        """For the runner: tell what was held back."""
        if self._undelivered:
            self._undelivered = False
            self._delivered_at = self._monotonic()
            known: dict[str, Any] = {} if self._progress is None else self._progress._asdict()
            known |= zip(ITEMS, self.items, strict=True)
            known["counters"] = None if self.counters is None else dict(self.counters)
            told = {name: value for name, value in known.items() if value is not None}
            self._host.report_progress(self.live.id, self.live.fence, encode(told, "progress"))

    def take_over(self, told: dict[str, Any]) -> None:
        """For the runner: what the same run tells in another process."""
        if "done" in told:
            self._progress = Progress(told["done"], told.get("of"), told.get("message"))
        self.items = told.get("items_crawled", self.items[0]), told.get("items_indexed", self.items[1])
        self.counters = tuple((dict(self.counters or ()) | told.get("counters", {})).items()) or None
        self._undelivered = True
        self.flush_progress()

    def _tell_soon(self) -> None:
        self._undelivered = True
        if self._monotonic() - self._delivered_at >= PROGRESS_EVERY:
            self.flush_progress()

    def pass_on_checkpoint(self, checkpoint: Json) -> None:
        self._host.save_checkpoint(self.live.id, self.live.fence, checkpoint)

    def pass_on_crawl_turn(self, turn: Json) -> Json:
        return self._host.crawl_turn(self.live, turn)

    def crawl_turn(self, turn: dict[str, Any]) -> dict[str, Any]:
        """For the task `crawl`: hand in pages and take URLs. It waits for the database."""
        answer: dict[str, Any] = json.loads(self._host.crawl_turn(self.live, json.dumps(turn)))
        return answer

    @property
    def checkpoint(self) -> Any:
        """The latest checkpoint of this attempt or an earlier one; None without one."""
        return None if self._checkpoint is None else decode(self._checkpoint, "checkpoint")

    def save_checkpoint(self, value: object) -> None:
        """Keep a JSON value for the next attempt, should there be one; raises LeaseLost if this run is over.

        It returns when the value is kept, so it waits for the database: in an `async def` task write
        `await asyncio.to_thread(ctx.save_checkpoint, value)`.
        """
        text = encode(value, "checkpoint")
        self._host.save_checkpoint(self.live.id, self.live.fence, text)
        self._checkpoint = text

    # -- tables (for built-in tasks; all of these wait for the database)

    def open_table(self, target: Target) -> TableState:
        """Make sure that a table can be written to: made if it is missing, refused if it does not fit."""
        return self._host.tables.open(target)

    def greatest(self, target: Target, column: MappedColumn) -> Cell:
        """The greatest value of a column that a source has stored."""
        return self._host.tables.greatest(target, column)

    def has_stored(self, target: Target) -> bool:
        """Say whether a source has a row in its table."""
        return self._host.tables.has_stored(target)

    def pack_rows(self, target: Target, rows: Sequence[Row]) -> Sequence[Row]:
        """Make rows ready to be stored, ahead of that."""
        return self._host.tables.pack(target, rows)

    def store_page(
        self, target: Target, chunks: Iterable[Sequence[Row]], checkpoint: Callable[[int], object]
    ) -> int:
        """Store rows and a checkpoint (by how many rows were new), both or none. LeaseLost if this run is over."""

        def text(new: int) -> str:
            return encode(checkpoint(new), "checkpoint")

        count = self._host.tables.store(self.live.id, self.live.fence, target, chunks, text)
        self._checkpoint = text(count)
        return count


_CURRENT: ContextVar[Context | None] = ContextVar("ostinato_context", default=None)
