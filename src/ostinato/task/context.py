"""The Context: a task's view of its own run.

A worker gives every run a Context. A plain call outside a worker gets a quiet one: its log goes to `logging`, and
its progress and checkpoint stay in memory. Code deep inside a task finds the Context by `Context.current()`.

The worker's host writes progress and checkpoints with the fence of the run: a run whose lease is lost cannot write
them. Its log lines are stored all the same.
"""

import json
import logging
import math
import time
from collections.abc import Callable
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self, TypeVar
from uuid import UUID, uuid4

from ostinato.clock import SystemClock
from ostinato.core.account import Counters, counted
from ostinato.core.builtin import Permits
from ostinato.core.errors import Invalid
from ostinato.core.model import AskedBy, Definition, Json, Live
from ostinato.core.payload import LogMessage, cut, decode, encode
from ostinato.core.schedule import Manual

if TYPE_CHECKING:
    from ostinato.outgoing import Outgoing
    from ostinato.task.open_resources import Resources
    from ostinato.task.registry import Resource

T = TypeVar("T")

PROGRESS_EVERY = 0.25  # seconds
MESSAGE_LIMIT = 1000
ITEMS: Final = ("items_crawled", "items_indexed")  # counters that executions have as fields of these names
KEPT: Final = "ostinato_kept"  # marks a log record that is already in the log of its execution

_LOGGER = logging.getLogger("ostinato.task")


class CallReply(NamedTuple):
    """The reply to a call of a running task; `checkpoint`: the new one of its run, if the call has stored it."""

    value: Any
    checkpoint: Json | None = None


class RunHost(Protocol):
    """The worker's side of a Context: it receives progress, checkpoints and log lines."""

    @property
    def outgoing(self) -> "Outgoing":
        """The HTTP client, on the worker's loop."""

    @property
    def permits(self) -> Permits:
        """Permissions of built-in tasks, set by the worker's administrator."""

    @property
    def resources(self) -> "Resources":
        """The open resources of the process."""

    def report_progress(self, execution_id: UUID, fence: int, progress: Json) -> None:
        """Store the latest progress. Called on the loop and on threads: it must neither block nor fail."""

    def save_checkpoint(self, execution_id: UUID, fence: int, checkpoint: Json) -> None:
        """Store a checkpoint, then return; raise LeaseLost if the run has lost its lease."""

    def call(self, live: Live, name: str, request: Any) -> CallReply:
        """Answer a call from a feature of the worker; raise LeaseLost if the run has lost its lease."""

    def keep_record(self, execution_id: UUID, level: int, said: object) -> bool:
        """Store a line of the execution's log; return True if it is stored. It must neither block nor fail."""

    def keep_printed(self, execution_id: UUID, stream: str, text: str) -> None:
        """Store a part of the execution's printed output. It must neither block nor fail."""


class QuietHost:
    """Host of a Context outside a worker: it stores nothing."""

    @property
    def outgoing(self) -> "Outgoing":
        raise Invalid("Only an `async def` task that runs in a worker can use ctx.outgoing.")

    @property
    def permits(self) -> Permits:
        return Permits()

    @property
    def resources(self) -> "Resources":
        from ostinato.task.open_resources import OF_PLAIN_CALLS

        return OF_PLAIN_CALLS

    def report_progress(self, execution_id: UUID, fence: int, progress: Json) -> None:
        pass

    def save_checkpoint(self, execution_id: UUID, fence: int, checkpoint: Json) -> None:
        pass

    def call(self, live: Live, name: str, request: Any) -> CallReply:
        raise Invalid(f"Only a task that runs in a worker can call {name}.")

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
    """Log with the names of its run: `ctx.log.info("sending", to=to)`."""

    __slots__ = ("_context", "_fields")

    def __init__(self, context: "Context", fields: dict[str, object]) -> None:
        self._context, self._fields = context, fields

    def debug(self, event: str, /, **fields: object) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        self._write(logging.ERROR, event, fields)

    def _write(self, level: int, event: str, fields: dict[str, object]) -> None:
        """Write to the log of the execution, without the run's names, and to `logging`, with them."""
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
        "traceparent",
        "worker",
    )

    def __init__(
        self,
        live: Live,
        definition: Definition,
        args: dict[str, Any],
        worker: str = "",
        host: RunHost = QuietHost(),  # noqa: B008  it has no state
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.live = live
        self.definition = definition
        self.args = args
        self.worker = worker
        self.cancelled = False  # True: the task should stop (cancelled, timed out, lease lost, worker stopping)
        self.items: tuple[int | None, int | None] = (None, None)  # crawled and indexed; see `count_items`
        self.counters: Counters | None = None  # see `count`
        self.traceparent: str | None = None  # of the span of this run, if it is traced (W3C Trace Context)
        self._host = host
        self._monotonic = monotonic
        self._checkpoint = live.checkpoint
        self._progress: Progress | None = None
        self._delivered_at = -math.inf
        self._undelivered = False

    @classmethod
    def quiet(cls, task: str, args: dict[str, Any]) -> Self:
        """Return a Context for a plain call: a new occurrence that is in no database."""
        now = SystemClock().now()
        live = Live(
            id=uuid4(), job_id=uuid4(), number=1, attempt=0, execution_number=1, asked=AskedBy.HAND,
            due_at=now, run_at=now, queued_at=now, queue="default", priority=5, task=task,
        )  # fmt: skip
        return cls(live, Definition(task, Manual()), args)

    @classmethod
    def current(cls) -> "Context | None":
        """Return the Context of the present run; None outside a run."""
        return _CURRENT.get()

    def become_current(self) -> None:
        """Make this the `current` Context of the asyncio task or thread. Only the runner calls it."""
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
        """The workflow's node that this run is a step of; empty outside workflows."""
        return self.live.step

    @property
    def execution_number(self) -> int:
        """The number of executions of the job, including this one."""
        return self.live.execution_number

    @property
    def due_at(self) -> datetime:
        """The time that the schedule named; retries have the same."""
        return self.live.due_at

    @property
    def occurrence_key(self) -> str:
        """The key that all attempts share: send it with requests to make them idempotent."""
        key = f"sched-{self.live.job_id}-n{self.live.number}"
        return f"{key}-{self.live.step}" if self.live.step else key

    @property
    def execution_key(self) -> str:
        """The key of this attempt only."""
        return f"{self.occurrence_key}-rc{self.live.attempt}"

    @property
    def log(self) -> Log:
        """The log, whose lines have this run's names."""
        return Log(self, {"job_id": self.live.job_id, "execution_key": self.execution_key})

    @property
    def outgoing(self) -> "Outgoing":
        """HTTP client of an `async def` task; it checks each address first."""
        return self._host.outgoing

    @property
    def permits(self) -> Permits:
        """Permissions of built-in tasks, set by the worker's administrator."""
        return self._host.permits

    def use(self, resource: "Resource[T]") -> T:
        """Return a resource; the first use in the process opens it. If that fails, it raises its error."""
        return self._host.resources.use(resource)

    async def ause(self, resource: "Resource[T]") -> T:
        """`use` for async code, and for `async def` resources; a `def` resource is opened on a thread."""
        return await self._host.resources.ause(resource)

    def keep_record(self, level: int, said: object) -> bool:
        """Store a line of this run's log; return True if it is stored. Only captures call it."""
        return self._host.keep_record(self.live.id, level, said)

    def keep_printed(self, stream: str, text: str) -> None:
        self._host.keep_printed(self.live.id, stream, text)

    def progress(self, done: float, of: float | None = None, message: str | None = None) -> None:
        """Report the progress. Call it as often as you like: a few a second are sent, and always the last."""
        if not math.isfinite(done) or (of is not None and not math.isfinite(of)):
            raise Invalid(f"Progress must be finite numbers, not {done} of {of}.")
        self._progress = Progress(done, of, None if message is None else cut(message, MESSAGE_LIMIT))
        self._report_soon()

    def count_items(self, crawled: int, indexed: int) -> None:
        """Set the numbers of records seen and of new ones so far. The execution shows them, however it ends."""
        self.items = crawled, indexed

    def count(self, **counters: float) -> None:
        """Set other counters (`ctx.count(mails=120)`). The execution shows them, however it ends."""
        totals = dict(counted(self.counters, counters))
        items = zip(ITEMS, self.items, strict=True)
        crawled, indexed = (int(totals.pop(name)) if name in totals else before for name, before in items)
        self.items, self.counters = (crawled, indexed), tuple(totals.items()) or None
        self._report_soon()

    @property
    def last_progress(self) -> Progress | None:
        """The latest progress."""
        return self._progress

    def flush_progress(self) -> None:
        """Send the progress not sent yet. Only the runner calls it."""
        if self._undelivered:
            self._undelivered = False
            self._delivered_at = self._monotonic()
            known: dict[str, Any] = {} if self._progress is None else self._progress._asdict()
            known |= zip(ITEMS, self.items, strict=True)
            known["counters"] = None if self.counters is None else dict(self.counters)
            reported = {name: value for name, value in known.items() if value is not None}
            self._host.report_progress(self.live.id, self.live.fence, encode(reported, "progress"))

    def take_over(self, progress: dict[str, Any]) -> None:
        """Take the progress of the same run in another process. Only the runner calls it."""
        if "done" in progress:
            self._progress = Progress(progress["done"], progress.get("of"), progress.get("message"))
        self.items = progress.get("items_crawled", self.items[0]), progress.get("items_indexed", self.items[1])
        self.counters = tuple((dict(self.counters or ()) | progress.get("counters", {})).items()) or None
        self._undelivered = True
        self.flush_progress()

    def _report_soon(self) -> None:
        self._undelivered = True
        if self._monotonic() - self._delivered_at >= PROGRESS_EVERY:
            self.flush_progress()

    def pass_on_checkpoint(self, checkpoint: Json) -> None:
        self._host.save_checkpoint(self.live.id, self.live.fence, checkpoint)

    def call(self, name: str, request: Any = None) -> Any:
        """Call a feature of the worker, such as `sources.store`. It waits for the database; raise LeaseLost if this run
        has lost its lease.

        In an `async def` task write `await asyncio.to_thread(ctx.call, name, request)`. In a process of its own the
        request and the answer must be JSON.
        """
        return self.pass_on_call(name, request).value

    def pass_on_call(self, name: str, request: Any) -> CallReply:
        """Call a feature and keep the checkpoint that it has stored."""
        reply = self._host.call(self.live, name, request)
        if reply.checkpoint is not None:
            self._checkpoint = reply.checkpoint
        return reply

    @property
    def checkpoint(self) -> Any:
        """The latest checkpoint of this attempt or an earlier one; None without one."""
        return None if self._checkpoint is None else decode(self._checkpoint, "checkpoint")

    def save_checkpoint(self, value: object) -> None:
        """Store a JSON value for the next attempt; raise LeaseLost if this run has lost its lease.

        It waits until the value is stored. In an `async def` task write
        `await asyncio.to_thread(ctx.save_checkpoint, value)`.
        """
        text = encode(value, "checkpoint")
        self._host.save_checkpoint(self.live.id, self.live.fence, text)
        self._checkpoint = text


def written(value: Any, name: str) -> Json:
    """Write what goes to another process as JSON; raise Invalid if it is not."""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"The call {name} of a task in a process of its own takes and gives JSON: {error}.") from None


_CURRENT: ContextVar[Context | None] = ContextVar("ostinato_context", default=None)
