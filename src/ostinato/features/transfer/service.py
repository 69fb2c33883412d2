"""Commands of an import: adopt jobs of another system, plan that without writing, and undo it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from ostinato.core import lifecycle
from ostinato.core.checks import check_definition
from ostinato.core.errors import NotFound, OstinatoError
from ostinato.core.forecast import foreseen
from ostinato.core.lifecycle import Adopted, FormerState
from ostinato.core.model import Definition, Job
from ostinato.core.schedule import Expired, describe
from ostinato.features.transfer.rows import FIRST, Imports
from ostinato.features.transfer.rules.found import ImportRecord
from ostinato.service import Service
from ostinato.store.jobs import JobRow

TIMES: Final = 10  # due times that are compared
UNCHANGED: Final = 1  # version of a job that was not edited


@dataclass(frozen=True, slots=True)
class WantedJob:
    """A job to be adopted; the error in its place says why it cannot be."""

    ref: str
    id: UUID | None
    definition: Definition | OstinatoError
    state: FormerState


@dataclass(frozen=True, slots=True)
class ImportedJob:
    """The answer for one job: the job that is here now, or the reason why there is none."""

    ref: str
    job: Job | None = None
    made: bool = False
    refused: str | None = None
    next: Sequence[datetime] = ()
    described: str = ""
    knows_task: bool = True


@dataclass(frozen=True, slots=True)
class Undone:
    """A step of an undo: deleted jobs, jobs that were edited since and stay, and the last job looked at."""

    deleted: Sequence[UUID]
    spared: Sequence[UUID]
    last: UUID | None


class ImportService:
    """Commands of imports."""

    def __init__(self, service: Service) -> None:
        self._store, self._clock, self._known = service.store, service.clock, service.known
        self._rows = service.store.part(Imports)

    def take(
        self,
        name: str,
        kind: str,
        source: str,
        wanted: Sequence[WantedJob],
        allowed: Callable[[], Expired],
        *,
        by: str,
        dry_run: bool,
    ) -> list[ImportedJob]:
        """Adopt jobs, those that can be; a job that is here already stays as it is. `dry_run`: write nothing."""
        now = self._clock.now()
        made = [self._adopted(each, now, by, name) for each in wanted]
        adopted = {place: each for place, each in enumerate(made) if isinstance(each, Adopted)}
        there = self._there(list(adopted.values()))
        if not dry_run and adopted:
            record = ImportRecord(name, kind, source, 0, now, by, None)
            refs = {each.change.job.id: wanted[place].ref for place, each in adopted.items()}
            ids = self._rows.save(record, list(adopted.values()), refs)
            there |= {job_id: row for job_id, row in self._store.jobs.get(ids).items() if job_id not in refs}
        knows = self._known.everywhere()
        return [
            self._taken(each.ref, now, one, there, knows, allowed(), dry_run=dry_run)
            for each, one in zip(wanted, made, strict=True)
        ]

    def _adopted(self, wanted: WantedJob, now: datetime, by: str, name: str) -> Adopted | OstinatoError:
        definition = wanted.definition
        if isinstance(definition, OstinatoError):
            return definition
        try:
            check_definition(definition)
            described = self._known.described({definition.task})
            self._known.check_args(definition.task, definition.args, described, definition.policies.run_args)
        except OstinatoError as error:
            return error
        chance = self._store.chance
        job_id = wanted.id or chance.id(wanted.state.created_at or now)
        return lifecycle.adopt(job_id, definition, wanted.state, now, chance, by, name)

    def _there(self, adopted: Sequence[Adopted]) -> dict[UUID, JobRow]:
        """Return the jobs that are here already, by the id of the adopted one."""
        jobs = [each.change.job for each in adopted]
        found = dict(self._store.jobs.get([job.id for job in jobs]))
        held = self._store.jobs.held({(job.definition.app, job.definition.key) for job in jobs if job.definition.key})
        rows = self._store.jobs.get(list(held.values()))
        for job in jobs:
            holder = held.get((job.definition.app, job.definition.key or ""))
            if holder in rows:
                found[job.id] = rows[holder]
        return found

    def _taken(
        self,
        ref: str,
        now: datetime,
        adopted: Adopted | OstinatoError,
        there: dict[UUID, JobRow],
        knows: frozenset[str],
        expired: Expired,
        *,
        dry_run: bool,
    ) -> ImportedJob:
        if isinstance(adopted, OstinatoError):
            return ImportedJob(ref, refused=str(adopted))
        new = adopted.change.job
        row = there.get(new.id)
        job = new if row is None else row.job
        times = foreseen(_unpaused(job, now), now, TIMES, expired).times
        described = describe(job.schedule, job.facts.anchor)
        is_new = row is None
        return ImportedJob(
            ref, None if is_new and dry_run else job, is_new and not dry_run, None, times, described,
            job.definition.task in knows,
        )  # fmt: skip

    # -- the record, and undo

    def get(self, name: str) -> ImportRecord:
        found = self._rows.get(name)
        if found is None:
            raise NotFound(f"There is no import {name[:100]!r}.")
        return found

    def count(self, name: str) -> int:
        """Count the jobs of an import that are still here."""
        return self._rows.count(name)

    def undo(self, name: str, after: UUID | None, limit: int, *, by: str) -> Undone:
        """Remove the next jobs of an import with their rows, but for those that were edited since."""
        name, now = self.get(name).name, self._clock.now()
        found = self._rows.jobs(name, limit, after or FIRST)
        deleted = [job_id for job_id, version in found if version == UNCHANGED]
        if deleted:
            at_rest = self._store.jobs.delete_many(
                deleted, lambda job, lives: lifecycle.delete(job, lives, now, self._store.chance, by)
            )
            self._store.history.remove(at_rest)
        if len(found) < limit:
            self._rows.end(name, now)
        spared = [job_id for job_id, version in found if version != UNCHANGED]
        return Undone(deleted, spared, found[-1][0] if len(found) == limit else None)

    def list(self) -> list[ImportRecord]:
        """List the newest imports."""
        return self._rows.list()


def _unpaused(job: Job, now: datetime) -> Job:
    """Return the job as a resume would leave it, to compare its due times."""
    facts = job.facts
    if facts.paused_at is None:
        return job
    return replace(job, facts=replace(facts, paused_at=None, next_due_at=None, anchor=max(facts.anchor, now)))
