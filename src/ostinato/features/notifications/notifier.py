"""The notifier: it finds events that no change reports, and delivers the notices of the outbox.

Several notifiers may work on one database. A notice is claimed for longer than an attempt can take, so that no two send
it at once; if a notifier dies, another takes its notices over. A notice is delivered when the receiver answers 2xx.
"""

import asyncio
import hashlib
import hmac
import logging
from datetime import datetime, timedelta
from typing import Final, TypeVar

from ostinato.clock import Clock
from ostinato.core.errors import BudgetSpent, Invalid, StoreError, Unreachable
from ostinato.core.model import EPOCH
from ostinato.engine.duties import EngineParts, Step
from ostinato.features.notifications.outbox import Outbox, Postponed, Sent, ToSend
from ostinato.features.notifications.rules import Hook, NoticeKind
from ostinato.outgoing import CallAnswer, Outgoing
from ostinato.store.kernel import InStore
from ostinato.store.store import Store
from ostinato.telemetry.reports import Counts, log_line

log = logging.getLogger("ostinato.engine")

ANSWER_WITHIN: Final = 10.0  # seconds
LEASE: Final = timedelta(minutes=1)
NOTICES_OF_A_TURN: Final = 20  # notices of one hook per step
FIRST_RETRY: Final = timedelta(seconds=10)  # doubles up to the last
LAST_RETRY: Final = timedelta(hours=1)
MOST_ATTEMPTS: Final = 15  # over about eight hours
GONE: Final = 410  # a receiver that answers this wants no more notices
KEPT: Final = timedelta(days=30)  # retention of notices that were delivered or given up

REFRESH_EVERY: Final = 2.0  # seconds
LATE_EVERY: Final = 5.0
LATE_SINCE: Final = timedelta(days=1)  # a new process reports no late runs older than this
THRESHOLDS_EVERY: Final = 30.0
PRUNE_EVERY: Final = 600.0

T = TypeVar("T")


def start(engine: EngineParts) -> Step:
    """Return the step of the loop that finds and sends notices."""
    kernel = engine.kernel
    return Notifier(kernel.store, kernel.clock, engine.telemetry.counts, engine.outgoing, engine.in_store).step


class Notifier:
    """The step that finds, claims and sends notices, and saves the results."""

    def __init__(self, store: Store, clock: Clock, counts: Counts, outgoing: Outgoing, in_store: InStore) -> None:
        self._clock_record, self._outbox = store.clock_record, store.part(Outbox)
        self._clock, self._counts, self._outgoing, self._in_store = clock, counts, outgoing, in_store
        self._hooks: list[Hook] = []
        self._late_until = clock.now() - LATE_SINCE  # late starts before this have been reported
        self._last: dict[str, float] = {}

    async def step(self) -> int:
        """Deliver the due notices; return the number of attempts."""
        claimed = await self._in_store(self._look)
        if claimed:
            sent = await asyncio.gather(*(self._send(each) for each in claimed))
            await self._in_store(lambda: self._note(list(zip(claimed, sent, strict=True))))
        return len(claimed)

    # -- in the store

    def _look(self) -> list[ToSend]:
        outbox, now = self._outbox, self._clock.now()
        if self._time_for("refresh", REFRESH_EVERY):
            self._hooks = outbox.refresh()
        if self._time_for("prune", PRUNE_EVERY):
            outbox.prune((now if self._clock_record.settled(now) else EPOCH) - KEPT)
        if not self._hooks:
            return []
        self._find(now)
        due = outbox.next_due()
        if due is None or due > now:
            return []
        return [each for hook in self._hooks for each in outbox.claim(hook, now, LEASE, NOTICES_OF_A_TURN)]

    def _find(self, now: datetime) -> None:
        late = [hook for hook in self._hooks if NoticeKind.LATE_START in hook.kinds]
        if late and self._time_for("late", LATE_EVERY):
            for hook in late:
                self._outbox.find_late(hook, self._late_until, now)
            self._late_until = now
        if self._time_for("thresholds", THRESHOLDS_EVERY):
            for hook in self._hooks:
                for threshold in hook.thresholds:
                    self._outbox.find_beyond(hook, threshold, now)

    def _time_for(self, what: str, every: float) -> bool:
        now = self._clock.monotonic()
        if now - self._last.get(what, float("-inf")) < every:
            return False
        self._last[what] = now
        return True

    def _note(self, sent: list[tuple[ToSend, Sent | Postponed]]) -> None:
        self._outbox.note([result for _, result in sent])
        for each, result in sent:
            self._counts.add("notice", result.how)
            if isinstance(result, Sent) and result.given_up_at is not None:
                log_line(logging.WARNING, "A notice could not be delivered", hook=each.hook.id, error=result.error)
                self._outbox.given_up(each.id, each.hook.id, result.error, result.given_up_at)

    # -- on the network

    async def _send(self, each: ToSend) -> Sent | Postponed:
        try:
            answer = await self._post(each)
        except BudgetSpent as error:
            return Postponed(each.id, each.attempt, error.until, str(error))
        except (Unreachable, Invalid, StoreError) as error:
            return self._failed(each, None, str(error))
        except Exception as error:  # a bug here must not stop the engine
            log.exception("A notice could not be sent")
            return self._failed(each, None, f"It could not be sent: {type(error).__name__}.")
        if answer.good:
            return Sent(each.id, each.attempt, None, self._clock.now(), None, answer.status, "")
        if answer.status == GONE:
            return self._over(each, answer.status, "It answered 410: the receiver wants no more notices.")
        return self._failed(each, answer.status, f"It answered {answer.status}.")

    async def _post(self, each: ToSend) -> CallAnswer:
        body = each.body.encode()
        headers = {
            "Content-Type": "application/json",
            "Ostinato-Id": str(each.id),
            "Ostinato-Kind": each.kind,
            "Ostinato-Attempt": str(each.attempt),
        }
        timestamp = str(int(self._clock.now().timestamp()))
        signed = {"Ostinato-Timestamp": timestamp}
        if each.hook.secret:
            secret = self._outgoing.grants.reveal(each.hook.secret)
            signed["Ostinato-Signature"] = signature(secret, timestamp, body)
        return await self._outgoing.call(
            "POST", each.hook.url, headers=headers | signed, body=body, seconds=ANSWER_WITHIN
        )

    def _failed(self, each: ToSend, status: int | None, error: str) -> Sent:
        if each.attempt >= MOST_ATTEMPTS:
            return self._over(each, status, error)
        again = self._clock.now() + backoff(each.attempt)
        return Sent(each.id, each.attempt, again, None, None, status, error)

    def _over(self, each: ToSend, status: int | None, error: str) -> Sent:
        return Sent(each.id, each.attempt, None, None, self._clock.now(), status, error)


def backoff(attempt: int) -> timedelta:
    """Return the pause after this number of attempts."""
    return min(FIRST_RETRY * (1 << min(attempt, MOST_ATTEMPTS) - 1), LAST_RETRY)


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a notice: it proves its origin and its time to a receiver with the secret."""
    return "v1=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
