"""Notices, written in the transaction of the change they report.

The hooks are cached and read again every few seconds (`Outbox.refresh`): without hooks, a settle pays one look at an
empty tuple.
"""

import json
import logging
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from ostinato.core.errors import NOT_READABLE, StoreError
from ostinato.core.model import Change, Definition, Event
from ostinato.core.outcome import OutcomeKind
from ostinato.features.notifications import notices
from ostinato.features.notifications.hooks import OF_SUCCESSES, Hook, Notice, NoticeKind
from ostinato.store import rows
from ostinato.store.adapt import to_uuid
from ostinato.store.database import Tx
from ostinato.store.store import Store

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
                    yield from ((hook, notice) for notice in notices.notices_of(hook, change, recovered))

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
            notice = notices.overlong(job_id, known[job_id], execution_id, event.at, json.loads(event.data))
            yield from ((hook, notice) for hook in hooks if hook.looks_at(job_id))


def _has_failed(change: Change) -> bool:
    facts = change.job.facts
    return facts.failed + facts.timed_out + facts.lost > 0
