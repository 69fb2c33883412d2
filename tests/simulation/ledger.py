"""What was promised, written down as it happens. Where an answer itself is wrong, it is said at once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from ostinato.clock import ManualClock
from ostinato.core.model import AskedBy, Definition, Live
from ostinato.store.settling import Settled
from ostinato.store.store import Store


class Violation(AssertionError):
    """A guarantee does not hold."""


@dataclass
class Known:
    """What the world knows about a job that somebody made."""

    id: UUID
    made: Definition
    tried: list[Definition] = field(default_factory=list)  # every definition it has or may have had
    stopped: str | None = None  # an acknowledged pause, cancel or delete
    run_since: bool = False  # somebody asked for a run since the pause
    deleted: bool = False  # or perhaps
    changed_when_over: set[datetime] = field(default_factory=set)  # when it was changed though it had ended


class Ledger:
    """What people and processes were told."""

    def __init__(self, clock: ManualClock, tell: Callable[[str], None]) -> None:
        self._clock, self._tell = clock, tell
        self.jobs: dict[UUID, Known] = {}
        self.claims: dict[UUID, Live] = {}  # the newest claim of each execution
        self.settled: dict[UUID, Any] = {}  # acknowledged ends
        self.completed: dict[UUID, Any] = {}  # those that were plain successes
        self.paused_queues: set[str] = set()
        self.clock_was_wrong = False  # then a due time that it named may lie ahead

    def committed(self, name: str, claimed: list[Live]) -> None:
        """These were claimed."""
        for live in claimed:
            self.claims[live.id] = live
            self._tell(f"  {name} claims {short(live.job_id)} n{live.number}-rc{live.attempt} fence {live.fence}")
            self._check_start(live)

    def _check_start(self, live: Live) -> None:
        now, known = self._clock.now(), self.jobs.get(live.job_id)
        first = live.asked is AskedBy.SCHEDULE and live.attempt == 0 and not self.clock_was_wrong
        if live.run_at > now or (first and live.due_at > now):
            raise Violation(f"G5: {live} starts early, at {now}")
        if live.queue in self.paused_queues:
            raise Violation(f"G8: {live} starts though its queue is paused")
        if known is None or known.stopped is None:
            return
        if self.clock_was_wrong and known.stopped == "pause" and live.asked is AskedBy.HAND:
            return  # whether a person asked before or after the pause is told by that clock
        if known.stopped != "pause" or not known.run_since:
            raise Violation(f"G8: {live} starts after an acknowledged {known.stopped}")

    def witness(self, store: Store) -> None:
        """Be there when something is settled."""
        settle, settle_in = store.queue.settle, store.queue.settle_in

        def witnessed_in(tx: Any, finished: Any, *expected: Any) -> Settled:
            settled = settle_in(tx, finished, *expected)
            ended = {each.id for change in settled.changes for each in (*change.ended, *change.alter)}
            ended |= {each.live.id for each in settled.plain}
            for each in finished:
                claim = self.claims.get(each.live.id)
                if each.live.id in ended and each not in settled.refused and each not in settled.left:
                    self._check_fence(each.live, claim)
            return settled

        def witnessed(finished: Any) -> Settled:
            settled = settle(finished)
            for change in settled.changes:
                for each in change.ended:
                    self.settled[each.id] = each
            for each in settled.plain:
                self.completed[each.live.id] = each
            return settled

        store.queue.settle_in, store.queue.settle = witnessed_in, witnessed  # type: ignore[method-assign]

    def _check_fence(self, live: Live, claim: Live | None) -> None:
        if claim is None or (live.fence, live.worker_id) != (claim.fence, claim.worker_id):
            raise Violation(f"G2: settled with a stale fence: {live}, but the last claim is {claim}")


class Alarm(logging.Handler):
    """Nothing that no rule can deal with ever happens here."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.exc_info or "cannot be" in message:
            trace = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
            self.heard.append(f"{message}\n{trace}")


def short(id: UUID) -> str:
    return id.hex[-6:]


def shown(definition: Definition) -> str:
    policies, usual = definition.policies, type(definition.policies)()
    changed = [n for n in policies.__slots__ if getattr(policies, n) != getattr(usual, n) and n != "backoff"]
    return " ".join(f"{name}={getattr(policies, name)}" for name in changed)
