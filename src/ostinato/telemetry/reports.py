"""Reports of committed changes: log lines, calls of this process's hooks, and counts.

Nothing here can fail a run: hooks have a thread of their own, and their errors are log lines.
"""

import inspect
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from ostinato.config import Settings
from ostinato.core.account import Account
from ostinato.core.errors import Invalid
from ostinato.core.model import Change, Claimed, Definition, Execution, Finished, Json, Live, Skip
from ostinato.core.outcome import OutcomeKind
from ostinato.core.payload import LogMessage, decode, member
from ostinato.telemetry.measures import RunTimes

if TYPE_CHECKING:
    from ostinato.core.audit import AuditFlaw

KINDS = ("job:start", "job:complete", "job:failed", "job:retry", "job:cancelled", "job:skipped")
MOST_WAITING = 10_000  # events that wait for hooks

Hook = Callable[[dict[str, Any]], object]
H = TypeVar("H", bound=Hook)

_LOGGER = logging.getLogger("ostinato")


class Counts:
    """Counts of events in this process, by (event, label)."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, what: str, which: str = "", count: int = 1) -> None:
        with self._lock:
            self._counts[what, which] += count

    def snapshot(self) -> dict[tuple[str, str], int]:
        with self._lock:
            return dict(self._counts)


class Hooks:
    """Plain functions that are called with events, each at most once and in order.

    They have one thread of their own: a slow hook delays other hooks, never a run. For slow work, or for events that
    must not be lost, let the hook enqueue a task, or use a notification.
    """

    def __init__(self) -> None:
        self._hooks: dict[str, list[Hook]] = {kind: [] for kind in KINDS}
        self._waiting: SimpleQueue[tuple[str, dict[str, Any]] | Event] = SimpleQueue()
        self._lock = Lock()
        self._thread: Thread | None = None
        self._overflowing = False

    def on(self, kind: str) -> Callable[[H], H]:
        """Return a decorator that registers a function for events of this kind. An event is a JSON-ready dict."""
        if kind not in self._hooks:
            raise Invalid(f"There is no event {kind!r}; there are {', '.join(KINDS)}.")

        def add(hook: H) -> H:
            if inspect.iscoroutinefunction(hook):
                raise Invalid(f"The hook {hook!r} must be a plain function; for async work, let it enqueue a task.")
            self._hooks[kind].append(hook)
            return hook

        return add

    def wanted(self, kind: str) -> bool:
        """Return True if a hook listens to this kind."""
        return bool(self._hooks[kind])

    def emit(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Queue an event for the hooks of this kind, and return at once."""
        if not self._hooks[kind] or self._is_overflowing(kind):
            return
        self._waiting.put((kind, {"event": kind, **payload}))
        if self._thread is None:
            self._start()

    def drain(self, timeout: float) -> bool:
        """Wait until the hooks have handled all emitted events; return False on a timeout."""
        if self._thread is None:
            return True
        reached = Event()
        self._waiting.put(reached)
        return reached.wait(timeout)

    def _is_overflowing(self, kind: str) -> bool:
        was, self._overflowing = self._overflowing, self._waiting.qsize() >= MOST_WAITING
        if self._overflowing and not was:
            log_line(logging.WARNING, "Hooks are too slow; events dropped", kind=kind, waiting=MOST_WAITING)
        return self._overflowing

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                thread = Thread(target=self._work, name="ostinato-hooks", daemon=True)
                with suppress(RuntimeError):  # without a free thread, the next event tries again
                    thread.start()
                    self._thread = thread

    def _work(self) -> None:
        while True:
            match self._waiting.get():
                case Event() as reached:
                    reached.set()
                case (kind, payload):
                    for hook in self._hooks[kind]:
                        _call(hook, kind, dict(payload))


def _call(hook: Hook, kind: str, payload: dict[str, Any]) -> None:
    try:
        hook(payload)
    except BaseException as error:  # noqa: BLE001  after any error, the next hook is still called
        name = getattr(hook, "__qualname__", repr(hook))
        log_line(logging.ERROR, "A hook failed", kind=kind, hook=name, error=f"{type(error).__name__}: {error}")


class Observer(Protocol):
    """A monitor beside the log: it is told about runs on the loop's thread, so it must neither block nor fail."""

    def started(self, claimed: Sequence[Claimed]) -> None:
        """Runs start."""

    def ended(self, about: Live | Execution, definition: Definition | None, end: "End") -> None:
        """A run has ended, and its end is stored."""


class End(NamedTuple):
    """The end of a run: its outcome, when, and whether another attempt follows."""

    outcome: OutcomeKind
    at: datetime
    again: bool = False


class Telemetry:
    """Reporter of committed changes."""

    def __init__(self, settings: Settings, hooks: Hooks, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.counts = Counts()
        self.hooks = hooks
        self._run_log = settings.run_log
        self._monotonic = monotonic
        self._lock = Lock()
        self._away_since: float | None = None
        self._unknown: set[str] = set()
        self.run_times: RunTimes | None = None  # only with `/metrics`
        self.observers: tuple[Observer, ...] = ()

    def measure(self) -> None:
        """Measure runs from now on."""
        self.run_times = self.run_times or RunTimes()

    def starting(self, what: str, /, **fields: object) -> None:
        log_line(logging.INFO, f"Starting {what}", **fields)

    def stopping(self, why: str, /, **fields: object) -> None:
        log_line(logging.INFO, "Stopping", why=why, **fields)

    # -- runs

    def started(self, claimed: Sequence[Claimed]) -> None:
        """Report claimed executions, which start."""
        logged, listened = self._logs_runs(), self.hooks.wanted("job:start")
        self.counts.add("claimed", count=len(claimed))
        for observer in self.observers:
            observer.started(claimed)
        for each in claimed if logged or listened else ():
            live = each.live
            if logged:
                names = {**_names(live), "source_name": member(each.args, "source_name")}
                log_line(logging.INFO, "Executing job", **names, retry_attempt=live.attempt)
            if listened:
                self.hooks.emit("job:start", _payload(live))

    def completed(self, finished: Sequence[Finished]) -> None:
        """Report runs that completed by the fast path."""
        self.counts.add("settled", OutcomeKind.COMPLETED, len(finished))
        for observer in self.observers:
            for done in finished:
                observer.ended(done.live, done.definition, End(OutcomeKind.COMPLETED, done.at))
        if self.run_times is not None:
            lives = ((each.live, each.at) for each in finished)
            self.run_times.add((live.task, live.started_at, live.run_at, at) for live, at in lives)
        if self._logs_runs() or self.hooks.wanted("job:complete"):
            for each in finished:
                self._completed(each.live, each.at, each.outcome.result, each.account)  # type: ignore[union-attr]

    def changed(self, changes: Sequence[Change]) -> None:
        """Report a committed fire, settle, sweep or command."""
        if self.run_times is not None:
            ended_runs = (ended for change in changes for ended in change.ended)
            self.run_times.add((each.task, each.started_at, each.run_at, each.finished_at) for each in ended_runs)
        for change in changes:
            for ended in change.ended:
                self._ended(change, ended)
            for live in change.add:
                if live.attempt > 0:
                    self._retrying(live)
            for skip in change.skips:
                self._skipped(change, skip)

    def released(self, live: Live, why: str) -> None:
        """Report a run that returned to the queue, as if it had never been claimed."""
        self.counts.add("released", why)
        if self._logs_runs():
            log_line(logging.INFO, "Run returned to the queue", **_names(live), why=why)

    def refused(self, live: Live) -> None:
        """Report a late result: another worker has the execution now."""
        self.counts.add("refused")
        log_line(logging.WARNING, "Late result rejected", **_names(live), fence=live.fence)

    def held(self, lives: Sequence[Live]) -> None:
        """Report results that cannot be saved; the worker keeps them and tries again."""
        self.counts.add("held", count=len(lives))
        for live in lives:
            log_line(logging.ERROR, "Result cannot be saved; retrying every minute", **_names(live))

    def overfull(self, results: int) -> None:
        """Report that a worker claims no more runs, since too many of its results cannot be saved."""
        log_line(
            logging.ERROR,
            "Too many results cannot be saved; this worker claims no more runs",
            results=results,
        )

    def stuck(self, live: Live, since: timedelta) -> None:
        """Report a run that was asked to stop and goes on."""
        log_line(logging.WARNING, "Run does not stop", **_names(live), stopping_for=_seconds(since))

    def overlong(self, live: Live, ran: timedelta, usual: timedelta) -> None:
        """Report a run that takes far longer than earlier runs of its job."""
        log_line(
            logging.WARNING,
            "Run takes unusually long",
            **_names(live),
            ran=_seconds(ran),
            usual=_seconds(usual),
        )

    def unknown_task(self, task: str, queued: int, install: str) -> None:
        """Report executions of a task that this worker does not have; once for each task.

        `install` is the command that brings what the task needs, if an extra does.
        """
        if task not in self._unknown:
            self._unknown.add(task)
            log_line(
                logging.WARNING,
                "Task not registered in this worker; its runs stay in the queue",
                task=task,
                queued=queued,
                **({"install": install} if install else {}),
            )

    # -- workers, store, clock

    def lease_lost(self, worker_id: UUID) -> None:
        """Report that this worker did not renew its lease in time; its runs go to other workers."""
        self.counts.add("lease_lost")
        log_line(logging.WARNING, "Lease lost; stopping the runs of this worker", worker=worker_id)

    def worker_lost(self, worker_id: UUID) -> None:
        """Report that another worker's lease has expired."""
        self.counts.add("worker_lost")
        log_line(logging.WARNING, "Worker lost", worker=worker_id)

    def store_away(self, error: Exception) -> None:
        """Report that the database does not answer; one line until it does."""
        self.counts.add("store_error")
        with self._lock:
            first = self._away_since is None
            if first:
                self._away_since = self._monotonic()
        if first:
            first_line = str(error).partition("\n")[0]
            log_line(logging.ERROR, "Database unavailable; retrying", error=first_line)

    def store_back(self) -> None:
        """Report that the database answers; a line only if it was unavailable."""
        if self._away_since is None:  # read without the lock, since every call of the store ends here
            return
        with self._lock:
            since, self._away_since = self._away_since, None
        if since is not None:
            away = timedelta(seconds=self._monotonic() - since)
            log_line(logging.INFO, "Database available again", away_for=_seconds(away))

    def flaw_found(self, flaw: "AuditFlaw") -> None:
        """Report a flaw that the auditor has found twice."""
        self.counts.add("flaw", flaw.kind)
        log_line(logging.WARNING, "Audit found a flaw", job=flaw.job_id, flaw=flaw.kind, sentence=flaw.sentence)

    def clock_jumped(self, by: timedelta) -> None:
        self.counts.add("clock_jump")
        log_line(logging.WARNING, "The clock was set", by=_seconds(by))

    # -- private

    def _logs_runs(self) -> bool:
        return self._run_log and _LOGGER.isEnabledFor(logging.INFO)

    def _ended(self, change: Change, ended: Execution) -> None:
        self.counts.add("settled", ended.outcome)
        for observer in self.observers:
            end = End(ended.outcome, ended.finished_at, change.retry_of(ended) is not None)
            observer.ended(ended, change.job.definition, end)
        match ended.outcome:
            case OutcomeKind.COMPLETED:
                self._completed(ended, ended.finished_at, ended.result, ended.account)
            case OutcomeKind.CANCELLED:
                log_line(logging.INFO, "Job cancelled", **_names(ended), by=ended.by)
                self._emit("job:cancelled", ended, by=ended.by)
            case OutcomeKind.LOST:
                log_line(
                    logging.WARNING,
                    "Cleared stale lock",
                    **_names(ended),
                    lock_age=_seconds(_duration(ended, ended.finished_at)),
                )
                self._failed(change, ended)
            case OutcomeKind.FAILED | OutcomeKind.TIMED_OUT:
                self._failed(change, ended)

    def _completed(self, about: Live | Execution, at: datetime, value: Json | None, account: Json | None) -> None:
        duration = _duration(about, at)
        if self._logs_runs():
            names, items = _names(about), Account.from_json(account).items_crawled
            took = _seconds(duration)
            log_line(logging.INFO, "Job completed successfully", **names, duration=took, items_crawled=items)
        if self.hooks.wanted("job:complete"):
            result = None if value is None else decode(value, "result")
            self._emit("job:complete", about, result=result, duration=duration.total_seconds())

    def _failed(self, change: Change, ended: Execution) -> None:
        again = change.retry_of(ended)
        retry_in = None if again is None else _wait(again)
        error = ": ".join(part for part in (ended.error_kind, ended.error) if part)
        if ended.outcome is not OutcomeKind.LOST:  # a lost run has its own line
            wait = None if retry_in is None else _seconds(retry_in)
            log_line(logging.ERROR, "Job execution failed", **_names(ended), error=error, retry_in=wait)
        seconds = None if retry_in is None else retry_in.total_seconds()
        self._emit("job:failed", ended, error=error, result=str(ended.outcome), retry_in=seconds)

    def _retrying(self, live: Live) -> None:
        self.counts.add("retry")
        self._emit("job:retry", live, retry_in=_wait(live).total_seconds())

    def _skipped(self, change: Change, skip: Skip) -> None:
        self.counts.add("skipped", skip.reason, skip.count)
        task, reason, count = change.job.definition.task, str(skip.reason), skip.count
        log_line(logging.INFO, "Due times skipped", job_id=skip.job_id, task=task, reason=reason, count=count)
        self.hooks.emit(
            "job:skipped",
            {
                "job_id": str(skip.job_id),
                "task": task,
                "reason": reason,
                "count": count,
                "first_due_at": skip.first_due_at.isoformat(),
                "last_due_at": skip.last_due_at.isoformat(),
            },
        )

    def _emit(self, kind: str, about: Live | Execution, **more: object) -> None:
        if self.hooks.wanted(kind):
            self.hooks.emit(kind, _payload(about) | more)


def log_line(level: int, what: str, /, **fields: object) -> None:
    """Log a line with those fields that are not None."""
    if _LOGGER.isEnabledFor(level):
        _LOGGER.log(level, LogMessage(what, {name: each for name, each in fields.items() if each is not None}))


def _names(about: Live | Execution) -> dict[str, object]:
    names: dict[str, object] = {"job_id": about.job_id, "task": about.task, "number": about.number}
    return names | {"step": about.step} if about.step else names


def _payload(about: Live | Execution) -> dict[str, Any]:
    return {
        "job_id": str(about.job_id),
        "task": about.task,
        "execution_id": str(about.id),
        "number": about.number,
        "attempt": about.attempt,
        **({"step": about.step} if about.step else {}),
    }


def _duration(about: Live | Execution, until: datetime) -> timedelta:
    """Return the duration by the wall clock; 0 if it was set back meanwhile."""
    return timedelta(0) if about.started_at is None else max(until - about.started_at, timedelta(0))


def _wait(live: Live) -> timedelta:
    return max(live.run_at - live.queued_at, timedelta(0))


def _seconds(value: timedelta) -> str:
    return f"{value.total_seconds():.3f}".rstrip("0").rstrip(".") + "s"
