"""Jobs that are declared in code.

A declaration is applied when a process starts to work, never by import. It changes a job only when it differs from
the declaration applied last (its hash is kept with the job), so what an operator paused or edited stays.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from ostinato.core.encoding import schedule_text
from ostinato.core.errors import Invalid
from ostinato.core.model import Definition, Status
from ostinato.core.policy import Policies
from ostinato.core.retry import Backoff
from ostinato.core.schedule import Cron, Every, Manual, Once
from ostinato.core.window import Window
from ostinato.scheduler.jobs import JobDesk, Ref
from ostinato.scheduler.views import JobView
from ostinato.store.store import Store

DECLARATION: Final = "declaration"  # who asked, in the events
ENDED: Final = (Status.COMPLETED, Status.FAILED)


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
        wanted = {_key(each): replace(each, declared=fingerprint(each)) for each in definitions}
        known = self._store.jobs.declared(self._app)
        created = self._create([each for key, each in wanted.items() if key not in known])
        changed = [
            key for key in wanted if key not in created and self._changed(known.get(key, key), wanted[key])
        ]
        gone = sorted(set(known) - set(wanted))
        for key in gone if prune else ():
            self._jobs.delete(known[key], by=DECLARATION)
        return Applied(
            created=tuple(created),
            changed=tuple(changed),
            unchanged=tuple(key for key in wanted if key not in created and key not in changed),
            gone=tuple(gone),
        )

    def _create(self, new: Sequence[Definition]) -> list[str]:
        """The keys of the jobs that were made; where a job held the key already, none was."""
        before = {_key(each): self._store.jobs.holder(self._app, _key(each)) for each in new}
        ids = self._jobs.create(new, by=DECLARATION)
        return [key for (key, held), job_id in zip(before.items(), ids, strict=True) if held != job_id]

    def _changed(self, ref: Ref, wanted: Definition) -> bool:
        """Bring a job in line if it was declared differently. Whoever cancelled it has the last word."""
        job = self._jobs.get(ref)
        if job.status is Status.CANCELLED or job.definition.declared == wanted.declared:
            return False
        if job.status in ENDED:
            self._begin_anew(job, wanted)
        self._jobs.edit(job.id, lambda _: wanted, by=DECLARATION)
        return True

    def _begin_anew(self, job: JobView, wanted: Definition) -> None:
        """A job that has ended stays so until its declaration changes. The hash comes last, with the edit that
        follows: should this process die before it, the next one does it all again."""
        edited = replace(wanted, declared=job.definition.declared)
        if self._jobs.edit(job.id, lambda _: edited, by=DECLARATION).status in ENDED:
            self._jobs.restart(job.id, by=DECLARATION)


def _key(definition: Definition) -> str:
    if definition.key is None:
        raise Invalid(f"The declared job of the task {definition.task!r} needs a key.")
    return definition.key


def fingerprint(definition: Definition) -> str:
    """A hash of what a declaration says. What has its default is left out: a version of Ostinato with more
    policies, or with other defaults, must not take every declaration for a changed one."""
    said = _said(definition, Definition("", Manual()))
    said.pop("declared", None)
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def _said(value: Any, default: Any) -> dict[str, Any]:
    """The fields that differ from their default, as plain values."""
    values = ((field.name, getattr(value, field.name)) for field in fields(value))
    return {name: _plain(each) for name, each in values if each != getattr(default, name)}


def _plain(value: Any) -> Any:
    match value:
        case Every() | Cron() | Once() | Manual():
            return schedule_text(value)
        case Policies() | Backoff():
            return _said(value, type(value)())
        case Window():
            return value.to_json()
        case tuple():
            return [_plain(each) for each in value]
        case _:
            return str(value)
