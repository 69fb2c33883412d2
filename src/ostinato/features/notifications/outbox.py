"""Hooks and the outbox: notices are written with the change they report, sent by one process, and recorded.

A notice is claimed for a while: `due_at` moves ahead, and the attempt number rises. A sender that returns with an older
number was too slow and changes nothing. So each notice is delivered at least once, and by one process at a time.
"""

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, ClassVar, Final
from uuid import UUID

from ostinato.core.errors import NOT_READABLE, NotFound, StoreError
from ostinato.core.model import Change, Definition, Event, Live
from ostinato.core.outcome import OutcomeKind
from ostinato.core.times import format_duration, parse_duration
from ostinato.features.notifications import rules
from ostinato.features.notifications.rules import (
    OF_SUCCESSES,
    TEST,
    Hook,
    Measure,
    Named,
    Notice,
    NoticeKind,
    Threshold,
    WindowFigures,
    before,
    beyond,
    late,
)
from ostinato.store import rows
from ostinato.store.database import Tx
from ostinato.store.rows import from_micros, to_uuid
from ostinato.store.store import Store

# -- Notices, written in the transaction of the change they report.
#
# The hooks are cached and read again every few seconds (`Outbox.refresh`): without hooks, a settle pays one look at an
# empty tuple.

log = logging.getLogger("ostinato.store")

OVERLONG: Final = "execution.overlong"


class Notices:
    """Notices to the hooks about changes."""

    def __init__(self, store: Store) -> None:
        self._chance = store.chance
        self.hooks: tuple[Hook, ...] = ()
        self.wants_successes = False
        store.writers.add(self)

    def use(self, hooks: Sequence[Hook]) -> None:
        self.hooks = tuple(hooks)
        self.wants_successes = any(OF_SUCCESSES.intersection(hook.kinds) for hook in hooks)

    def write(self, tx: Tx, changes: Sequence[Change]) -> None:
        """Write notices about the changes of this transaction. A bug here must not prevent a settle."""
        if not self.hooks or not changes:
            return
        try:
            found = list(self._of_changes(tx, changes))
        except StoreError:
            raise
        except Exception:
            log.exception("No notice could be written for a change")
            return
        self.insert(tx, found)

    def write_events(self, tx: Tx, events: Sequence[Event]) -> None:
        """Write notices about events that no change carries."""
        long_runs = [event for event in events if event.kind == OVERLONG]
        wanted = [hook for hook in self.hooks if NoticeKind.LONG_RUN in hook.kinds]
        if long_runs and wanted:
            self.insert(tx, list(_of_long_runs(tx, wanted, long_runs)))

    def insert(self, tx: Tx, found: Iterable[tuple[Hook, Notice]]) -> list[UUID]:
        """Insert notices into the outbox, except for topics already reported; return their ids."""
        batch = [self._row(hook, notice) for hook, notice in found]
        if batch:  # in one order, since two transactions may insert the same
            tx.run("insert_notices", sorted(batch, key=itemgetter(1, 2)))
        return [row[0] for row in batch]

    def _row(self, hook: Hook, notice: Notice) -> tuple[Any, ...]:
        notice_id = self._chance.id(notice.at)
        body = json.dumps(notice.body(notice_id, hook.id))
        return notice_id, hook.id, notice.topic, str(notice.kind), notice.job_id, body, notice.at

    def _of_changes(self, tx: Tx, changes: Sequence[Change]) -> Iterable[tuple[Hook, Notice]]:
        recovered = self._recovered(tx, changes)
        for change in changes:
            for hook in self.hooks:
                if hook.looks_at(change.job.id):
                    yield from ((hook, notice) for notice in rules.notices_of(hook, change, recovered))

    def _recovered(self, tx: Tx, changes: Sequence[Change]) -> set[UUID]:
        """Return the executions that are the first success after a failure."""
        hooks = [hook for hook in self.hooks if NoticeKind.RECOVERY in hook.kinds]
        ended = [
            (each.id, each.job_id, each.number, each.attempt)
            for change in changes
            if _has_failed(change) and any(hook.looks_at(change.job.id) for hook in hooks)
            for each in change.ended
            if each.outcome is OutcomeKind.COMPLETED and not each.step
        ]
        before = tx.rows("results_before", ended) if ended else []
        return {to_uuid(row_id) for row_id, result in before if OutcomeKind(result).is_failure}


def definitions_of(tx: Tx, ids: Iterable[UUID]) -> dict[UUID, Definition]:
    """Return definitions, for their names; leave out those that cannot be read."""
    found: dict[UUID, Definition] = {}
    for row in tx.rows("definitions", ids=list(set(ids))):
        try:
            job_id, _, definition = rows.definition_of(row)
        except NOT_READABLE:
            continue
        found[to_uuid(job_id)] = definition
    return found


def _of_long_runs(tx: Tx, hooks: Sequence[Hook], events: Sequence[Event]) -> Iterable[tuple[Hook, Notice]]:
    known = definitions_of(tx, [event.job_id for event in events if event.job_id is not None])
    for event in events:
        job_id, execution_id = event.job_id, event.execution_id
        if job_id is not None and execution_id is not None and job_id in known:
            notice = rules.overlong(job_id, known[job_id], execution_id, event.at, json.loads(event.data))
            yield from ((hook, notice) for hook in hooks if hook.looks_at(job_id))


def _has_failed(change: Change) -> bool:
    facts = change.job.facts
    return facts.failed + facts.timed_out + facts.lost > 0


# -- Hooks and the outbox: notices to be sent, the process that sends each, and the results

BATCH: Final = 500
MOST_LATE: Final = 1000
MOST_JOBS: Final = 1000


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notice and its result so far."""

    id: UUID
    kind: str
    job_id: UUID | None
    body: str
    created_at: datetime
    due_at: datetime | None
    attempts: int
    delivered_at: datetime | None
    given_up_at: datetime | None
    answer: int | None
    error: str

    @property
    def state(self) -> str:
        """Tell whether it is pending, delivered or given up."""
        if self.due_at is not None:
            return "pending"
        return "given_up" if self.delivered_at is None else "delivered"


@dataclass(frozen=True, slots=True)
class ToSend:
    """A notice that this process may send for a while."""

    id: UUID
    hook: Hook
    kind: str
    body: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of a delivery attempt; if `due_at` is set, it is repeated then."""

    id: UUID
    attempt: int
    due_at: datetime | None
    delivered_at: datetime | None
    given_up_at: datetime | None
    answer: int | None
    error: str

    @property
    def how(self) -> str:
        if self.delivered_at is not None:
            return "delivered"
        return "failed" if self.given_up_at is None else "given_up"


@dataclass(frozen=True, slots=True)
class Postponed:
    """A notice that was not sent, since a budget was spent; it counts as no attempt."""

    id: UUID
    attempt: int
    due_at: datetime
    error: str

    how: ClassVar[str] = "postponed"


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of a hook's notices by state."""

    pending: int = 0
    delivered: int = 0
    given_up: int = 0


DELIVERY: Final = rows.Shape(Delivery)
SENT: Final = rows.Shape(Sent)
POSTPONED: Final = rows.Shape(Postponed)


class Outbox:
    """Tables of hooks and of their notices."""

    def __init__(self, store: Store) -> None:
        self._database, self._notices, self._chance = store.database, store.part(Notices), store.chance
        self._unreadable: set[UUID] = set()  # already logged

    # -- hooks

    def add_hook(self, hook: Hook) -> None:
        """Add a hook. It takes effect here at once, in other processes within seconds."""
        with self._database.write() as tx:
            tx.run(
                "insert_hook", id=hook.id, url=hook.url, kinds=json.dumps(hook.kinds), job=hook.job_id,
                secret=hook.secret, late_after=hook.late_after // timedelta(microseconds=1),
                thresholds=json.dumps([_threshold_written(each) for each in hook.thresholds]),
                description=hook.description, now=hook.created_at, by=hook.created_by,
            )  # fmt: skip
            self._tell(tx, "hook.created", hook.id, hook.created_at, hook.created_by)
        self.refresh()

    def delete_hook(self, hook_id: UUID, now: datetime, by: str) -> None:
        """Delete a hook and its waiting notices."""
        with self._database.write() as tx:
            if not tx.run("delete_hook", id=hook_id):
                raise NotFound(f"There is no hook {hook_id}.")
            tx.run("delete_notices_of", id=hook_id)
            self._tell(tx, "hook.deleted", hook_id, now, by)
        self.refresh()

    def hooks(self) -> list[Hook]:
        """List the hooks, the oldest first; leave out those written by a newer version."""
        with self._database.read() as tx:
            found = [self._read(row) for row in tx.rows("list_hooks")]
        return [hook for hook in found if hook is not None]

    def _read(self, row: rows.Row) -> Hook | None:
        try:
            return _hook(row)
        except NOT_READABLE as error:
            hook_id = to_uuid(row[0])
            if hook_id not in self._unreadable:
                self._unreadable.add(hook_id)
                log.error("A hook cannot be read: hook=%s error=%s", hook_id, error)
            return None

    def tallies(self) -> dict[UUID, Tally]:
        with self._database.read() as tx:
            return {to_uuid(row[0]): Tally(*map(int, row[1:])) for row in tx.rows("count_deliveries")}

    def refresh(self) -> list[Hook]:
        """Read the hooks again: later changes in this process are matched against them."""
        hooks = self.hooks()
        self._notices.use(hooks)
        return hooks

    # -- events that no change reports

    def add_test(self, hook: Hook, text: str, now: datetime) -> UUID:
        """Add a test notice for a hook."""
        notice = Notice(TEST, f"{TEST}:{self._chance.id(now)}", now, None, text, {})
        with self._database.write() as tx:
            (notice_id,) = self._notices.insert(tx, [(hook, notice)])
        return notice_id

    def find_late(self, hook: Hook, since: datetime, now: datetime) -> None:
        """Add notices about executions that should have started since then and are too late for this hook."""
        with self._database.read() as tx:
            found = tx.rows(
                "late_live", since=since - hook.late_after, until=now - hook.late_after, job=hook.job_id,
                late_after=hook.late_after // timedelta(microseconds=1), limit=MOST_LATE,
            )  # fmt: skip
            lives: list[Live] = [rows.LIVE.of(row) for row in found]
            known = definitions_of(tx, [live.job_id for live in lives]) if lives else {}
        too_late = [late(hook, live, known[live.job_id], now) for live in lives if live.job_id in known]
        self._insert([(hook, notice) for notice in too_late if notice is not None])

    def find_beyond(self, hook: Hook, threshold: Threshold, now: datetime) -> None:
        """Add notices about jobs that exceed a threshold."""
        from_id = self._chance.id(now - threshold.window)
        lost = threshold.measure is Measure.LOSSES
        found = self._losses(hook, from_id) if lost else self._by_job(hook, threshold, from_id)
        exceeded = [beyond(threshold, job, figures, now) for job, figures in found]
        new = [notice for notice in exceeded if notice is not None]
        known = self._reported_since(hook, [before(notice.topic) for notice in new], now - threshold.window)
        self._insert([(hook, notice) for notice in new if before(notice.topic) not in known])

    def _reported_since(self, hook: Hook, topics: list[str], since: datetime) -> set[str]:
        if not topics:
            return set()
        with self._database.read() as tx:
            return {topic for (topic,) in tx.rows("topics_since", id=hook.id, topics=topics, since=since)}

    def _losses(self, hook: Hook, from_id: UUID) -> list[tuple[Named | None, WindowFigures]]:
        with self._database.read() as tx:
            (row,) = tx.rows("window_losses", from_id=from_id, job=hook.job_id)
        return [(None, WindowFigures(hook.id, 0, row[0], row[0], None, None))]

    def _by_job(self, hook: Hook, threshold: Threshold, from_id: UUID) -> list[tuple[Named | None, WindowFigures]]:
        with self._database.read() as tx:
            found = tx.rows("window_figures", from_id=from_id, job=hook.job_id, least=threshold.least, limit=MOST_JOBS)
            ids = [to_uuid(row[0]) for row in found]
            known = definitions_of(tx, ids) if ids else {}
            usual = self._usual(tx, ids, from_id) if threshold.measure is Measure.DURATION and ids else {}
        figures = [
            WindowFigures(job_id, int(row[1]), int(row[2]), int(row[3]), _span(row[4]), usual.get(job_id))
            for job_id, row in zip(ids, found, strict=True)
        ]
        return [(Named(each.job_id, known[each.job_id]), each) for each in figures if each.job_id in known]

    def _usual(self, tx: Tx, ids: Sequence[UUID], from_id: UUID) -> dict[UUID, timedelta | None]:
        return {to_uuid(row[0]): _span(row[1]) for row in tx.rows("usual_durations", ids=ids, from_id=from_id)}

    def _insert(self, found: Sequence[tuple[Hook, Notice]]) -> None:
        if found:
            with self._database.write() as tx:
                self._notices.insert(tx, found)

    # -- sending

    def next_due(self) -> datetime | None:
        """Return the time of the next delivery."""
        with self._database.read() as tx:
            row = tx.row("next_notice")
        return None if row is None or row[0] is None else from_micros(row[0])

    def claim(self, hook: Hook, now: datetime, lease: timedelta, limit: int) -> list[ToSend]:
        """Claim some notices of a hook; no other process claims them until the lease is over."""
        with self._database.write() as tx:
            found = tx.rows("claim_notices", id=hook.id, now=now, until=now + lease, limit=limit)
        return [ToSend(to_uuid(row_id), hook, kind, body, attempt) for row_id, kind, body, attempt in found]

    def note(self, sent: Sequence[Sent | Postponed]) -> None:
        """Save the results of delivery attempts."""
        tried = [SENT.row(each) for each in sent if isinstance(each, Sent)]
        later = [POSTPONED.row(each) for each in sent if isinstance(each, Postponed)]
        with self._database.write() as tx:
            if tried:
                tx.run("note_attempts", tried)
            if later:
                tx.run("postpone_notices", later)

    def given_up(self, notice_id: UUID, hook_id: UUID, error: str, now: datetime) -> None:
        """Write an event that a notice was given up."""
        with self._database.write() as tx:
            self._tell(tx, "hook.given_up", hook_id, now, "", notice=str(notice_id), error=error)

    def deliveries(self, hook_id: UUID, limit: int, before: UUID | None = None, state: str = "") -> list[Delivery]:
        """List deliveries, the newest first."""
        with self._database.read() as tx:
            found = tx.rows("list_deliveries", id=hook_id, before=before, state=state, limit=limit)
        return [DELIVERY.of(row) for row in found]

    def prune(self, before: datetime) -> int:
        """Delete some old notices that are done, or whose hook was deleted."""
        with self._database.write() as tx:
            return tx.run("delete_old_notices", before=before, limit=BATCH)

    def _tell(self, tx: Tx, kind: str, hook_id: UUID, at: datetime, by: str, **data: Any) -> None:
        text = json.dumps({"hook": str(hook_id), **data})
        tx.run("insert_events", [rows.EVENT.row(Event(self._chance.id(at), at, kind, by=by, data=text))])


def _hook(row: rows.Row) -> Hook:
    hook_id, url, kinds, job_id, secret, late_after, thresholds, description, created_at, created_by = row
    return Hook(
        to_uuid(hook_id), url, tuple(NoticeKind(kind) for kind in json.loads(kinds)),
        None if job_id is None else to_uuid(job_id), secret, timedelta(microseconds=late_after),
        tuple(_threshold_read(each) for each in json.loads(thresholds)), description, from_micros(created_at),
        created_by,
    )  # fmt: skip


def _threshold_written(threshold: Threshold) -> dict[str, Any]:
    return {
        "measure": threshold.measure,
        "limit": threshold.limit,
        "window": format_duration(threshold.window),
        "least": threshold.least,
    }


def _threshold_read(text: dict[str, Any]) -> Threshold:
    return Threshold(Measure(text["measure"]), text["limit"], parse_duration(text["window"]), text["least"])


def _span(micros: float | None) -> timedelta | None:
    return None if micros is None else timedelta(microseconds=round(micros))
