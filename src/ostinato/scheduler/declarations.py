"""Jobs that are declared in code.

A declaration is applied when a process starts to work, never by import. It changes a job only when it differs from
the declaration applied last (its hash is kept with the job), so what an operator paused or edited stays.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from uuid import UUID

from ostinato.core.encoding import policies_text, schedule_text
from ostinato.core.errors import Invalid
from ostinato.core.model import Definition, Status
from ostinato.scheduler.jobs import JobDesk
from ostinato.store.store import Store

DECLARATION = "declaration"  # who asked, in the events


@dataclass(frozen=True, slots=True)
class Applied:
    """What applying the declarations of an app came to."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()  # jobs whose declaration is no longer there


class Declarations:
    """Brings the jobs of an app in line with what its code declares."""

    def __init__(self, store: Store, jobs: JobDesk, app: str) -> None:
        self._store, self._jobs, self._app = store, jobs, app

    def apply(self, definitions: Sequence[Definition], *, prune: bool = False) -> Applied:
        """Create what is new, change what was declared differently, report (or prune) what has gone."""
        known = self._store.jobs.declared(self._app)
        wanted = {_key(each): replace(each, declared=fingerprint(each)) for each in definitions}
        new = [each for key, each in wanted.items() if key not in known]
        changed = [key for key in wanted if key in known and self._differs(known[key], wanted[key])]
        self._jobs.create(new, by=DECLARATION)
        for key in changed:
            self._change(known[key], wanted[key])
        gone = sorted(set(known) - set(wanted))
        for key in gone if prune else ():
            self._jobs.delete(known[key], by=DECLARATION)
        return Applied(
            created=tuple(_key(each) for each in new),
            changed=tuple(changed),
            unchanged=tuple(key for key in wanted if key in known and key not in changed),
            gone=tuple(gone),
        )

    def _differs(self, job_id: UUID, wanted: Definition) -> bool:
        job = self._jobs.get(job_id)
        return job.status is not Status.CANCELLED and job.definition.declared != wanted.declared

    def _change(self, job_id: UUID, wanted: Definition) -> None:
        """An ended job stays ended until its declaration changes; then it begins as new."""
        if self._jobs.edit(job_id, lambda _: wanted, by=DECLARATION).status in (
            Status.COMPLETED,
            Status.FAILED,
        ):
            self._jobs.restart(job_id, by=DECLARATION)


def _key(definition: Definition) -> str:
    if definition.key is None:
        raise Invalid(f"The declared job of the task {definition.task!r} needs a key.")
    return definition.key


def fingerprint(definition: Definition) -> str:
    """A hash of all that a declaration says."""
    plain = {field.name: getattr(definition, field.name) for field in fields(definition)}
    plain |= {"schedule": schedule_text(definition.schedule), "policies": policies_text(definition.policies)}
    plain.pop("declared")
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:32]
