"""Jobs: made, changed by rules, looked up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from ostinato.core.errors import Conflict, NotFound, StoreUnavailable
from ostinato.core.model import Change, Execution, Job, Live, Status
from ostinato.store import locking, rows
from ostinato.store.database import Database, Duplicate, Tx
from ostinato.store.dialect import to_uuid
from ostinato.store.locking import Definitions

Rule = Callable[[Job, Sequence[Live], Execution | None], Change]
TRIES = 5  # two processes that race for one key: one of them looks again


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job with what is live of it."""

    job: Job
    lives: tuple[Live, ...]


class Jobs:
    """The table of what is to come."""

    def __init__(self, database: Database, definitions: Definitions) -> None:
        self._database = database
        self._definitions = definitions
        self._known_queues: set[str] = set()

    # -- making and changing

    def add(self, changes: Sequence[Change], connection: object | None = None) -> list[UUID]:
        """Save new jobs. Where a job that has not ended holds the key already, its id is returned instead.

        With a connection of the caller's they are part of its transaction, and undone with it.
        """
        if connection is not None:
            return self._again_when_raced(lambda: self._add_in_theirs(changes, connection))
        return self._again_when_raced(lambda: self._add(changes))

    def change(self, job_id: UUID, rule: Rule, wants_last: bool = False) -> Change:
        """Lock a job, let a rule decide, save what it decided."""
        try:
            return self._change(job_id, rule, wants_last)
        except Duplicate as duplicate:
            raise Conflict("Another job that has not ended holds this key.") from duplicate

    def _change(self, job_id: UUID, rule: Rule, wants_last: bool) -> Change:
        with self._database.write() as tx:
            job = locking.locked_jobs(tx, self._definitions, [job_id]).get(job_id)
            if job is None or job.facts.deleted_at is not None:
                raise NotFound(f"There is no job {job_id}.")
            lives = locking.lives_of(tx, [job_id])[job_id]
            last = _last(tx, job_id) if wants_last else None
            change = rule(job, lives, last)
            self._save(tx, job, change)
        return change

    def _again_when_raced(self, add: Callable[[], list[UUID]]) -> list[UUID]:
        for _ in range(TRIES):
            try:
                return add()
            except Duplicate:
                continue
        raise StoreUnavailable("Others keep taking the same key; try again.")

    def _add(self, changes: Sequence[Change]) -> list[UUID]:
        with self._database.write() as tx:
            ids = self._insert(tx, changes)
            queues = {change.job.definition.queue for change in changes}
            tx.after_commit(lambda: self._known_queues.update(queues))
        return ids

    def _add_in_theirs(self, changes: Sequence[Change], connection: object) -> list[UUID]:
        with self._database.borrow(connection) as tx:
            return self._insert(tx, changes)

    def _insert(self, tx: Tx, changes: Sequence[Change]) -> list[UUID]:
        taken = self._holders(tx, changes)
        new: dict[UUID, Change] = {}
        ids = []
        for change in changes:
            place = (change.job.definition.app, rows.held_key(change.job))
            holder = taken.setdefault(place, change.job.id) if place[1] is not None else change.job.id
            ids.append(holder)
            if holder == change.job.id:
                new[holder] = change
        self._add_queues(tx, {change.job.definition.queue for change in new.values()})
        locking.insert(tx, list(new.values()))
        if locking.wakes_somebody(new.values()):
            tx.ring()
        return ids

    def _holders(self, tx: Tx, changes: Sequence[Change]) -> dict[tuple[str, str | None], UUID]:
        wanted = {(change.job.definition.app, rows.held_key(change.job)) for change in changes}
        taken: dict[tuple[str, str | None], UUID] = {}
        for app, key in wanted:
            row = tx.row("job_by_held_key", app=app, key=key) if key is not None else None
            if row is not None:
                taken[app, key] = to_uuid(row[0])
        return taken

    def _add_queues(self, tx: Tx, names: set[str]) -> None:
        if not names <= self._known_queues:
            tx.run("add_queues", [(name,) for name in sorted(names)])

    def _save(self, tx: Tx, before: Job, change: Change) -> None:
        if change.job.definition != before.definition:
            tx.run("update_definition", id=change.job.id, **rows.written(change.job.definition))
            self._add_queues(tx, {change.job.definition.queue})
        locking.save(tx, [change])
        if locking.wakes_somebody([change]):
            tx.ring()

    # -- looking

    def get(self, ids: Sequence[UUID]) -> dict[UUID, JobRow]:
        """Jobs that are not deleted, with their live rows, from one snapshot."""
        with self._database.read() as tx:
            return self._rows(tx, ids)

    def ids_by_key(self, app: str, key: str) -> list[UUID]:
        """All jobs that have or had a key, the newest first."""
        with self._database.read() as tx:
            return [to_uuid(job_id) for (job_id,) in tx.rows("jobs_by_key", app=app, key=key)]

    def holder(self, app: str, key: str) -> UUID | None:
        """The job that holds a key now."""
        with self._database.read() as tx:
            row = tx.row("job_by_held_key", app=app, key=key)
        return None if row is None else to_uuid(row[0])

    def declared(self, app: str) -> dict[str, UUID]:
        """The jobs that declarations of an app have made, by key; of several the newest."""
        with self._database.read() as tx:
            found = tx.rows("declared_keys", app=app)
        return {key: to_uuid(job_id) for job_id, key in sorted(found, key=lambda row: to_uuid(row[0]))}

    def page(
        self,
        limit: int,
        before: UUID | None = None,
        *,
        status: Status | None = None,
        task: str | None = None,
        queue: str | None = None,
        app: str | None = None,
    ) -> list[JobRow]:
        """A page of jobs, the newest first."""
        with self._database.read() as tx:
            found = tx.rows(
                "list_jobs", before=before, limit=limit, status=status, task=task, queue=queue, app=app
            )
            ids = [to_uuid(job_id) for job_id, _ in found]
            jobs = self._rows(tx, ids)
        return [jobs[job_id] for job_id in ids if job_id in jobs]

    def count_by_status(self) -> dict[Status, int]:
        with self._database.read() as tx:
            return {Status(status): count for status, count in tx.rows("count_by_status")}

    def status_of(self, job_id: UUID) -> Status | None:
        """What the SQL view says."""
        with self._database.read() as tx:
            row = tx.row("status_of", id=job_id)
        return None if row is None else Status(row[0])

    def _rows(self, tx: Tx, ids: Sequence[UUID]) -> dict[UUID, JobRow]:
        jobs = locking.with_definitions(tx, self._definitions, map(rows.facts_of, tx.rows("facts", ids=ids)))
        lives = locking.lives_of(tx, ids, "live_of")
        return {job_id: JobRow(jobs[job_id], tuple(lives[job_id])) for job_id in ids if job_id in jobs}


def _last(tx: Tx, job_id: UUID) -> Execution | None:
    row = tx.row("last_executions", ids=[job_id])
    return None if row is None else rows.EXECUTION.of(row)
