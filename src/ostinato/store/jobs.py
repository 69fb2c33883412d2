"""Jobs: creation, changes by rules, queries; declared jobs that were deleted."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from ostinato.core.errors import Conflict, NotFound, StoreError, StoreUnavailable
from ostinato.core.lifecycle import Adopted
from ostinato.core.model import Chance, Change, DeclinedJob, Event, Execution, Job, Json, Live, Status
from ostinato.store import locking, rows
from ostinato.store.database import Database, Duplicate, Tx
from ostinato.store.firing import NOBODY, chain, come_after
from ostinato.store.locking import ChangeWriters, Definitions
from ostinato.store.rows import to_uuid

# -- Declared jobs that were deleted, as rows

DECLINED: Final = rows.Shape(DeclinedJob)


class Declined:
    """Table of declared jobs that stay deleted."""

    def __init__(self, database: Database, chance: Chance) -> None:
        self._database, self._chance = database, chance

    def list(self) -> list[DeclinedJob]:
        """List the declared jobs of all apps that stay deleted."""
        with self._database.read() as tx:
            return [DECLINED.of(row) for row in tx.rows("list_declined")]

    def remove(self, row: DeclinedJob, now: datetime, by: str) -> bool:
        """Allow the declaration to make its job again. Return False if another call has done so."""
        with self._database.write() as tx:
            removed = bool(tx.run("remove_declined", app=row.app, key=row.key, declared=row.declared))
            if removed:
                data = json.dumps({"app": row.app, "key": row.key})
                event = Event(self._chance.id(now), now, "job.redeclared", by=by, data=data)
                tx.run("insert_events", [rows.EVENT.row(event)])
        return removed


def decline(tx: Tx, job: Job, by: str) -> str | None:
    """Note that a declared job was deleted, and return its key; a job that no code declares has none."""
    key, declared, at = job.definition.key, job.definition.declared, job.facts.deleted_at
    if key is None or declared is None:
        return None
    tx.run("decline", app=job.definition.app, key=key, declared=declared, now=at, by=by)
    return key


# -- Jobs: creation, changes by rules, queries

Rule = Callable[[Job, Sequence[Live], Execution | None], Change]
Place = tuple[str, str]  # app, key
RESTARTED = "job.restarted"  # the event of a restart
TRIES = 5  # two processes may race for one key: one of them tries again


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job with its live rows."""

    job: Job
    lives: tuple[Live, ...]


class Copies(NamedTuple):
    """The columns in which copies of a job differ."""

    job_ids: Sequence[UUID]
    live_ids: Sequence[bytes]
    args: Sequence[Json]


class Jobs:
    """Table of jobs."""

    def __init__(self, database: Database, definitions: Definitions, writers: ChangeWriters) -> None:
        self._database = database
        self._definitions = definitions
        self._writers = writers
        self._known_queues: set[str] = set()

    # -- making and changing

    def add(
        self,
        changes: Sequence[Change],
        connection: object | None = None,
        after: Mapping[UUID, UUID] = NOBODY,
    ) -> list[UUID]:
        """Save new jobs. If a job that has not ended holds the key, return that job's id instead.

        With a connection of the caller they are part of its transaction, and undone with it. Safe to repeat: a job
        saved by an earlier call, whose answer was lost, is not saved twice. `after`: which of the jobs follow which.
        """
        for attempt in range(TRIES):
            with suppress(Duplicate):
                return self._add(changes, connection, after, repeated=attempt > 0)
        raise StoreUnavailable("Other processes keep taking the keys of these jobs; try again.")

    def add_copies(self, original: Change, copies: Copies, connection: object | None = None) -> None:
        """Save a new job without a key, and copies of it that differ only in their ids and args: all or none."""
        try:
            with self._writing(connection, {original.job.definition.queue}) as tx:
                self._insert(tx, [original], {original.job.definition.queue}, repeated=False)
                if copies.job_ids:
                    self._insert_copies(tx, original, copies)
        except Duplicate:
            if original.job.id not in self.get([original.job.id]):
                raise  # otherwise an earlier call has saved them and its answer was lost

    def _insert_copies(self, tx: Tx, original: Change, copies: Copies) -> None:
        tx.touch(copies.job_ids)
        own = list(zip(copies.job_ids, copies.args, strict=True))
        tx.run("insert_alike_jobs", own, **rows.shared_by_jobs(original.job))
        for live in original.add:
            own_lives = list(zip(copies.live_ids, copies.job_ids, strict=True))
            tx.run("insert_alike_live", own_lives, **rows.shared_by_lives(live))

    def adopt(self, adopted: Sequence[Adopted], note: Callable[[Tx, Sequence[Adopted]], None]) -> list[UUID]:
        """Save jobs of another system, with the rows that `note` writes about the new ones, in one transaction.

        A job whose id is here, or whose key is held, is not saved; return for each the job that is here now.
        """
        for _ in range(TRIES):
            with suppress(Duplicate):
                return self._adopt(adopted, note)
        raise StoreUnavailable("Other processes keep taking the keys of these jobs; try again.")

    def _adopt(self, adopted: Sequence[Adopted], note: Callable[[Tx, Sequence[Adopted]], None]) -> list[UUID]:
        changes = [each.change for each in adopted]
        queues = {change.job.definition.queue for change in changes}
        with self._writing(None, queues) as tx:
            there = self._there(tx, changes)
            ids = self._insert(tx, changes, queues, repeated=True)
            new = [each for each, held in zip(adopted, ids, strict=True) if _is_new(each, held, there)]
            pruned = [(each.change.job.id, json.dumps(dict(each.pruned))) for each in new if each.pruned]
            if pruned:
                tx.run("note_many_pruned", pruned)
            note(tx, new)
            return ids

    def change(self, job_id: UUID, rule: Rule, wants_last: bool = False, after: UUID | None = None) -> Change:
        """Lock a job, apply a rule, and save its decision. `wants_last` passes the newest failed occurrence; `after` is
        the job that it follows from now on, if the rule changes that."""
        try:
            with self._database.write() as tx:
                return self._change(tx, job_id, rule, wants_last, after)
        except Duplicate as duplicate:
            if "held_key" not in duplicate.what:
                raise
            raise Conflict("Another job that has not ended holds this key.") from duplicate

    def delete_many(self, ids: Sequence[UUID], rule: Callable[[Job, Sequence[Live]], Change]) -> list[UUID]:
        """Delete jobs by a rule, in one transaction; return those of which nothing runs any more."""
        with self._database.write() as tx:
            jobs = locking.locked_jobs(tx, self._definitions, ids)
            lives = locking.lives_of(tx, list(jobs))
            changes = [rule(job, lives[job_id]) for job_id, job in jobs.items() if job.facts.deleted_at is None]
            locking.save(tx, changes)
            self._writers.write(tx, changes)
        return [each.job.id for each in changes if len(each.drop) == len(lives[each.job.id])]

    def delete(self, job_id: UUID, rule: Rule, *, declined_by: str | None) -> str | None:
        """Delete a job by a rule. With `declined_by`, the key of a declared job is noted as declined, and returned."""
        with self._database.write() as tx:
            job = self._change(tx, job_id, rule).job
            return None if declined_by is None else decline(tx, job, declined_by)

    def _change(self, tx: Tx, job_id: UUID, rule: Rule, wants_last: bool = False, after: UUID | None = None) -> Change:
        job = self._locked(tx, job_id)
        lives = locking.lives_of(tx, [job_id])[job_id]
        change = rule(job, lives, locking.last_failure(tx, job) if wants_last else None)
        self._save(tx, job, change)
        if change.job.policies.after != job.policies.after:
            tx.run("delete_dependencies_of", ids=[job_id])
            if after is not None and change.job.policies.after is not None:
                come_after(tx, {job_id: after})
        _note_restart(tx, change)
        self._writers.write(tx, [change])
        return change

    def _locked(self, tx: Tx, job_id: UUID) -> Job:
        found = tx.row("lock_facts", ids=[job_id])
        facts = None if found is None else rows.facts_of(found)
        if facts is None or facts[1].deleted_at is not None:
            raise NotFound(f"There is no job {job_id}.")
        jobs = locking.with_definitions(tx, self._definitions, dict([facts]))
        if job_id not in jobs:
            raise StoreError(f"Job {job_id} was written by a newer version, which is needed to change it.")
        return jobs[job_id]

    def _add(
        self,
        changes: Sequence[Change],
        connection: object | None,
        after: Mapping[UUID, UUID],
        repeated: bool,
    ) -> list[UUID]:
        queues = {change.job.definition.queue for change in changes}
        with self._writing(connection, queues) as tx:
            ids = self._insert(tx, changes, queues, repeated)
            if after:
                come_after(tx, {job_id: other for job_id, other in after.items() if job_id in ids})
            return ids

    @contextmanager
    def _writing(self, connection: object | None, queues: set[str]) -> Iterator[Tx]:
        """Open a transaction, or borrow the caller's, whose commit is not seen here."""
        if connection is not None:
            with self._database.borrow(connection) as tx:
                yield tx
            return
        with self._database.write() as tx:
            tx.after_commit(lambda: self._known_queues.update(queues))
            yield tx

    def _insert(self, tx: Tx, changes: Sequence[Change], queues: set[str], repeated: bool) -> list[UUID]:
        holders = self._holders(tx, changes)
        there = self._there(tx, changes) if repeated else frozenset()
        new: dict[UUID, Change] = {}
        ids = []
        for change in changes:
            place = _place(change)
            holder = change.job.id if place is None else holders.setdefault(place, change.job.id)
            ids.append(holder)
            if holder == change.job.id and holder not in there:
                new[holder] = change
        self._add_queues(tx, queues)
        locking.insert(tx, list(new.values()))
        if locking.leaves_work(new.values()):
            tx.notify()
        return ids

    def _holders(self, tx: Tx, changes: Sequence[Change]) -> dict[Place, UUID]:
        """Return the jobs that hold the keys of these changes."""
        wanted = sorted({place for change in changes if (place := _place(change)) is not None})
        found = tx.rows("holders", wanted) if wanted else []
        return {(app, key): to_uuid(job_id) for app, key, job_id in found}

    def _there(self, tx: Tx, changes: Sequence[Change]) -> frozenset[UUID]:
        found = tx.rows("jobs_there", ids=[change.job.id for change in changes])
        return frozenset(to_uuid(job_id) for (job_id,) in found)

    def _add_queues(self, tx: Tx, names: set[str]) -> None:
        if not names <= self._known_queues:
            tx.run("add_queues", [(name,) for name in sorted(names)])

    def _save(self, tx: Tx, before: Job, change: Change) -> None:
        if change.job.definition != before.definition:
            tx.run("update_definition", id=change.job.id, **rows.written(change.job.definition))
            self._add_queues(tx, {change.job.definition.queue})
        locking.save(tx, [change])
        if locking.leaves_work([change]):
            tx.notify()

    # -- queries

    def get(self, ids: Sequence[UUID]) -> dict[UUID, JobRow]:
        """Return jobs that are not deleted, with their live rows, from one snapshot."""
        with self._database.read() as tx:
            return self.rows_in(tx, ids)

    def ids_by_key(self, app: str, key: str) -> list[UUID]:
        """List all jobs that have or had a key, the newest first."""
        with self._database.read() as tx:
            return [to_uuid(job_id) for (job_id,) in tx.rows("jobs_by_key", app=app, key=key)]

    def by_key_anywhere(self, key: str) -> dict[str, UUID]:
        """Return, for each app, the job that holds a key, or else held it last."""
        with self._database.read() as tx:
            found = tx.rows("jobs_by_key_anywhere", key=key)
        holding = {app: to_uuid(job_id) for app, job_id, held in found if held is not None}
        return {app: to_uuid(job_id) for app, job_id, _ in reversed(found)} | holding

    def holder(self, app: str, key: str) -> UUID | None:
        """Return the job that holds a key now."""
        with self._database.read() as tx:
            row = tx.row("job_by_held_key", app=app, key=key)
        return None if row is None else to_uuid(row[0])

    def held(self, places: Collection[Place]) -> dict[Place, UUID]:
        """Return the jobs that hold these keys now."""
        if not places:
            return {}
        with self._database.read() as tx:
            return {(app, key): to_uuid(job_id) for app, key, job_id in tx.rows("holders", sorted(places))}

    def declared(self, app: str) -> dict[str, UUID]:
        """Return the jobs declared by an app, by key; of several the newest."""
        with self._database.read() as tx:
            found = tx.rows("declared_keys", app=app)
        return {key: to_uuid(job_id) for job_id, key in sorted(found, key=lambda row: to_uuid(row[0]))}

    def chain(self, job_id: UUID) -> list[UUID]:
        """List a job, the job that it runs after, and so on."""
        with self._database.read() as tx:
            return chain(tx, job_id)

    def status_of(self, job_id: UUID) -> Status | None:
        """Return the status of a job by the SQL view."""
        with self._database.read() as tx:
            row = tx.row("status_of", id=job_id)
        return None if row is None else Status(row[0])

    def rows_in(self, tx: Tx, ids: Sequence[UUID]) -> dict[UUID, JobRow]:
        """Do the same as `get`, in an open transaction."""
        jobs = locking.with_definitions(tx, self._definitions, dict(map(rows.facts_of, tx.rows("facts", ids=ids))))
        lives = locking.lives_of(tx, ids, "live_of")
        return {job_id: JobRow(jobs[job_id], tuple(lives[job_id])) for job_id in ids if job_id in jobs}


def _is_new(adopted: Adopted, held: UUID, there: frozenset[UUID]) -> bool:
    return held == adopted.change.job.id and held not in there


def _note_restart(tx: Tx, change: Change) -> None:
    """Note the counters of a job at its restart: they go on."""
    if any(event.kind == RESTARTED for event in change.events):
        facts = change.job.facts
        counted = {"completed": facts.completed, "errors": facts.errors}
        tx.run("note_restart", id=change.job.id, counted=json.dumps(counted))


def _place(change: Change) -> Place | None:
    """Return the key that a new job must hold, if any."""
    key = rows.held_key(change.job)
    return None if key is None else (change.job.definition.app, key)
