"""Execution of messages for RQ, from the delivery of a message to the next one; failures in RQ's monitoring."""

import asyncio
import hashlib
import logging
import os
import socket
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from datetime import timedelta
from typing import Final, Protocol
from uuid import UUID

from redis import Redis
from redis.exceptions import RedisError
from rq.job import Job as Entry

from ostinato.config import Settings
from ostinato.config.extras import our_version
from ostinato.core.errors import StoreError, StoreUnavailable
from ostinato.core.model import Change, Claimed, Finished
from ostinato.core.outcome import Cancelled, Lost
from ostinato.core.payload import LogMessage
from ostinato.engine.logbook import captured
from ostinato.engine.single_run import SingleRun
from ostinato.features.rq.messages import RqMessages
from ostinato.features.rq.taking import TakenMessage, Taking
from ostinato.handle import RunFailed
from ostinato.service import ExecutionView, Service
from ostinato.store.workers import NewWorker
from ostinato.task import Registry
from ostinato.telemetry.formatting import configure_logging
from ostinato.telemetry.reports import Hooks, Telemetry
from ostinato.wiring import Parts, observe

# -- Failed runs in RQ's own monitoring: the message of a failed run becomes a failed RQ job.
#
# A failed attempt with a retry counts as with RQ's `Retry`: the worker has one failure more, and the registry of failed
# jobs gets no entry. The retry is a new message; RQ itself never retries.


class _RunTelemetry(Telemetry):
    """Telemetry of one message, which also records the committed changes."""

    changes: tuple[Change, ...] = ()

    def changed(self, changes: Sequence[Change]) -> None:
        self.changes += tuple(changes)
        super().changed(changes)


class TaskTraceback(Exception):
    """Traceback of a task as text, shown as the cause of RunFailed."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def failure(execution_id: UUID, changes: Sequence[Change], entry: Entry) -> RunFailed | None:
    """Find the failure of an execution; let RQ forget the message if a retry follows."""
    found = [(change, ended) for change in changes for ended in change.ended if ended.id == execution_id]
    if not found or not found[0][1].outcome.is_failure:
        return None
    change, ended = found[0]
    if change.retry_of(ended) is not None:
        entry.failure_ttl = 0
    failed = RunFailed(ExecutionView.of(ended))
    failed.__cause__ = TaskTraceback(ended.traceback) if ended.traceback else None
    return failed


# -- Execution of messages for RQ: from the delivery of a message to the next one

log = logging.getLogger("ostinato.rq")

HOOKS_TIMEOUT: Final = 1.0  # seconds for hooks after a run
LIMITED: Final = 500  # rows updated at once


class _RunsTasks(Protocol):
    """An app, such as `ostinato.Ostinato`: its database, its tasks and its listeners."""

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def registry(self) -> Registry: ...
    @property
    def hooks(self) -> Hooks: ...
    @property
    def parts(self) -> Parts: ...
    @property
    def scheduler(self) -> Service: ...


class RqEngine:
    """Engine of one app, with one database and one Redis."""

    def __init__(self, app: _RunsTasks, connection: Redis) -> None:
        configure_logging(app.settings)
        self.app, self.connection = app, connection
        self._messages: RqMessages | None = None

    @property
    def messages(self) -> RqMessages:
        """The messages. The first use opens the database; from then on, its changes are sent to Redis."""
        if self._messages is None:
            parts = self.app.parts
            self._messages = RqMessages(parts.store, parts.clock, self.connection)
            parts.store.database.on_change = self._messages.on_change
        return self._messages

    # -- a message

    def execute(self, job_id: UUID, mine: Entry | None) -> None:
        """Fire, claim, run and settle, if there is an execution to claim; then send the next message.

        Raise RunFailed if the run has failed, so that RQ counts a failed job.
        """
        try:
            self.messages.mine = mine
            self._execute(job_id, mine)
        finally:
            self.messages.mine = None
            self.app.hooks.drain(HOOKS_TIMEOUT)

    def _execute(self, job_id: UUID, mine: Entry | None) -> None:
        try:
            taken, worker, sent = self._take(job_id, mine)
        except StoreUnavailable as error:
            self._deliver_again(mine, error)
            return
        telemetry = _RunTelemetry(self.app.settings, self.app.hooks)
        observe(self.app.settings, telemetry, self.app.registry)
        telemetry.changed(taken.changes)
        if taken.unknown is not None:
            telemetry.unknown_task(taken.unknown, 1, self.app.parts.store.database.features.install(taken.unknown))
        if taken.claimed is not None:
            self._run(taken.claimed, worker, sent, mine, telemetry)
        self._send_next(job_id, taken)
        if mine is not None and taken.claimed is not None:
            failed = failure(taken.claimed.live.id, telemetry.changes, mine)
            if failed is not None:
                raise failed

    def _take(self, job_id: UUID, mine: Entry | None) -> tuple[TakenMessage, UUID, float]:
        parts = self.app.parts
        sent, now = parts.clock.monotonic(), parts.clock.now()
        worker = NewWorker(
            parts.chance.id(now), self.app.name, socket.gethostname(), _worker_pid(mine), our_version(),
            self.app.registry.names(), () if mine is None else (mine.origin,), 1,
        )  # fmt: skip
        wanted = job_id, worker, parts.clock.now, parts.settings.lease, "" if mine is None else mine.id
        taken = parts.store.part(Taking).take(*wanted)
        if taken.claimed is None and taken.limited:
            parts.store.queue.time_has_come(now, LIMITED)
            parts.store.queue.let_through(now)
            taken = parts.store.part(Taking).take(*wanted)
        return taken, worker.id, sent

    def _run(self, claimed: Claimed, worker: UUID, sent: float, mine: Entry | None, telemetry: Telemetry) -> None:
        parts, live = self.app.parts, claimed.live
        if mine is not None:  # for the worker that finds this process dead
            mine.meta = {"execution": str(live.id), "fence": live.fence, "worker": str(worker)}
            with suppress(RedisError):  # the run does not need it
                mine.save_meta()  # type: ignore[no-untyped-call]

        async def run() -> None:
            single = SingleRun(parts.store, self.app.registry, parts.clock, parts.chance, telemetry, parts.settings)
            await single.run(claimed, worker, sent)

        with captured() if parts.settings.capture_output else nullcontext():
            asyncio.run(run())

    def _send_next(self, job_id: UUID, taken: TakenMessage) -> None:
        """Send the next message. If Redis or the database is unavailable, another worker recovers it."""
        try:
            if taken.limited:
                self.app.parts.store.queue.let_through(self.app.parts.clock.now())
            self.messages.sync([job_id])
            if self._may_recover():
                self.recover()
        except (RedisError, StoreError) as error:
            log.warning(LogMessage("Next run not enqueued; recovery will enqueue it", {"error": str(error)}))

    def _deliver_again(self, mine: Entry | None, error: StoreUnavailable) -> None:
        if mine is None:
            raise error
        log.warning(LogMessage("Database unavailable; the message will be delivered again", {"error": str(error)}))
        self.messages.come_back_later()

    # -- recovery

    def recover(self) -> int:
        """Settle runs without a lease and enqueue missing messages; return the number of those."""
        parts = self.app.parts
        now, patience = parts.clock.now(), 2 * parts.settings.lease
        for lease in parts.store.workers.leases():
            if lease.lease_until + patience < now:  # the sweeper of a server, if there is one, is quicker
                parts.store.workers.close_lost(lease, now)
        parts.store.workers.settle_leftovers(now)
        parts.store.queue.time_out_runs(now)
        return self.messages.recover()

    def _may_recover(self) -> bool:
        """Return True if no worker has recovered messages for a while; then only this one may."""
        name = hashlib.sha256(self.app.parts.store.database.name.encode()).hexdigest()[:12]
        every = max(self.app.settings.sweep, timedelta(seconds=1))
        return bool(self.connection.set(f"ostinato:recovery:{name}", 1, nx=True, px=every // timedelta(milliseconds=1)))

    # -- runs that were killed

    def end_stopped(self, entry: Entry) -> None:
        """End a run that RQ has killed after a stop command."""
        self._end(entry, None)

    def end_killed(self, entry: Entry, how: str) -> None:
        """End a run whose process has ended, as its worker noticed."""
        self._end(entry, Lost(f"its process ended: {how}"))

    def _end(self, entry: Entry, otherwise: Lost | None) -> None:
        meta, parts = entry.get_meta(), self.app.parts
        if "execution" not in meta:
            return
        job_id, now = UUID(str(entry.args[0])), parts.clock.now()
        for live in parts.store.part(Taking).present([job_id])[job_id].lives:
            if str(live.id) == meta["execution"] and live.fence == meta["fence"] and live.worker_id:
                asked = live.cancel_asked_at is not None
                cancelled = Cancelled(live.cancel_by if asked else "rq", "its process was stopped by RQ")
                outcome = cancelled if asked or otherwise is None else otherwise
                settled = parts.store.queue.settle([Finished(live, outcome, now)])
                Telemetry(parts.settings, self.app.hooks).changed(settled.changes)
                failure(live.id, settled.changes, entry)  # RQ itself fails the message of a killed run
        parts.store.workers.leave_quietly(UUID(meta["worker"]), now)
        self.messages.on_change([job_id])


def _worker_pid(mine: Entry | None) -> int:
    """Return the pid of RQ's worker: the parent, in a process forked for a message."""
    forked = mine is not None and os.environ.get("RQ_JOB_ID") == mine.id
    return os.getppid() if forked else os.getpid()
