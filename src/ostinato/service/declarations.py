"""Jobs that are declared in code.

A declaration is applied when a process starts to work, never by import. It changes a job only when it differs from
the declaration applied last (the job stores its hash), so a pause or edit by an operator stays. A declared job that was
deleted stays deleted until its declaration changes, a job is created by hand under its key, or it is redeclared.

Processes that start together apply the same declarations at once, and operators delete jobs meanwhile. So applying
is idempotent: after a conflict with such a change it begins again.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeVar

from ostinato.clock import Clock
from ostinato.core.encoding import schedule_text
from ostinato.core.errors import Conflict, Invalid, NotFound
from ostinato.core.model import DeclinedJob, Definition, Status
from ostinato.core.policy import UNNAMED, Backoff, Policies
from ostinato.core.schedule import Cron, Every, Manual, Once
from ostinato.core.times import Window
from ostinato.service.jobs import JobService
from ostinato.service.views import JobView, Ref
from ostinato.store.database import Duplicate
from ostinato.store.store import Store

T = TypeVar("T")

DECLARATION: Final = "declaration"  # the caller in the events
UNSAID: Final = Policies(backoff=UNNAMED)  # of a declaration without policies
ENDED: Final = (Status.COMPLETED, Status.FAILED)
TRIES: Final = 5  # each conflicts with a change by another process or an operator


def settled(apply: Callable[[], T]) -> T:
    """Apply declarations; begin again after a conflict with another change of the same jobs or workflows."""
    for _ in range(TRIES - 1):
        with suppress(Conflict, NotFound, Duplicate):
            return apply()
    return apply()


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of applying an app's declarations."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()  # jobs whose declaration was removed
    declined: tuple[str, ...] = ()  # declared jobs that were deleted, and stay deleted
    blocked: tuple[str, ...] = ()  # new jobs that follow one of those: not created


class Declarations:
    """The declared jobs of an app, kept in line with its code."""

    def __init__(self, store: Store, clock: Clock, jobs: JobService, app: str) -> None:
        self._store, self._clock, self._jobs, self._app = store, clock, jobs, app

    def apply(self, definitions: Sequence[Definition], *, prune: bool = False) -> Applied:
        """Create new jobs, change jobs with another declaration, report (or prune) jobs without one."""
        declared = {_key(each): replace(each, declared=fingerprint(each)) for each in definitions}
        return settled(lambda: self._apply(declared, prune))

    def _apply(self, declared: Mapping[str, Definition], prune: bool) -> Applied:
        # Before the declined ones are read: a job that is deleted in between is not new.
        known = self._store.jobs.declared(self._app)
        declined = self._still_declined(declared)
        blocked = _followers({key: each for key, each in declared.items() if key not in known}, declined)
        wanted = {key: each for key, each in declared.items() if key not in declined and key not in blocked}
        created = self._create([each for key, each in wanted.items() if key not in known])
        changed = [key for key in wanted if key not in created and self._changed(known.get(key, key), wanted[key])]
        gone = sorted(set(known) - set(declared))
        for key in gone if prune else ():
            self._jobs.delete(known[key], by=DECLARATION, declined=False)
        return Applied(
            created=tuple(created),
            changed=tuple(changed),
            unchanged=tuple(key for key in wanted if key not in created and key not in changed),
            gone=tuple(gone),
            declined=declined,
            blocked=blocked,
        )

    def declined(self) -> list[DeclinedJob]:
        """List the declared jobs of all apps that were deleted and stay deleted."""
        return self._store.declined.list()

    def redeclare(self, key: str, *, app: str | None = None, by: str = "") -> DeclinedJob:
        """Let a deleted job be created again, the next time that a process of its app starts to work."""
        found = {row.app: row for row in self.declined() if row.key == key}
        app = self._app if app is None and self._app in found else app
        if app is None and len(found) > 1:
            raise Conflict(f"The apps {', '.join(found)} each have deleted {key!r}: say which app.")
        row = found.get(app) if app is not None else next(iter(found.values()), None)
        if row is None or not self._store.declined.remove(row, self._clock.now(), by):
            of_app = "" if app is None else f" of the app {app!r}"
            raise NotFound(f"{key!r}{of_app} is not among the declared jobs that were deleted.")
        return row

    def _still_declined(self, declared: Mapping[str, Definition]) -> tuple[str, ...]:
        """List the keys of deleted jobs whose declaration has not changed; forget the other deletions."""
        stay = []
        for row in (each for each in self.declined() if each.app == self._app and each.key in declared):
            if declared[row.key].declared == row.declared:
                stay.append(row.key)
            else:
                self._store.declined.remove(row, self._clock.now(), DECLARATION)
        return tuple(key for key in declared if key in stay)

    def _create(self, new: Sequence[Definition]) -> list[str]:
        """Create jobs and return their keys, without those that a job held already."""
        before = {_key(each): self._store.jobs.holder(self._app, _key(each)) for each in new}
        ids = self._jobs.create(new, by=DECLARATION)
        return [key for (key, held), job_id in zip(before.items(), ids, strict=True) if held != job_id]

    def _changed(self, ref: Ref, wanted: Definition) -> bool:
        """Bring a job in line with a changed declaration. A cancelled job stays cancelled."""
        job = self._jobs.get(ref)
        if job.status is Status.CANCELLED or job.definition.declared == wanted.declared:
            return False
        if job.status in ENDED:
            self._begin_anew(job, wanted)
        self._jobs.edit(job.id, lambda _: wanted, by=DECLARATION)
        return True

    def _begin_anew(self, job: JobView, wanted: Definition) -> None:
        """Restart an ended job whose declaration has changed. The caller writes the hash last: if this process dies
        before, the next one repeats the restart."""
        edited = replace(wanted, declared=job.definition.declared)
        if self._jobs.edit(job.id, lambda _: edited, by=DECLARATION).status in ENDED:
            self._jobs.restart(job.id, by=DECLARATION)


def _followers(new: Mapping[str, Definition], missing: Collection[str]) -> tuple[str, ...]:
    """Find the new jobs that follow a missing one, directly or through each other."""
    found: list[str] = []
    while more := [key for key, each in new.items() if key not in found and each.policies.after in (*missing, *found)]:
        found += more
    return tuple(key for key in new if key in found and key not in missing)


def _key(definition: Definition) -> str:
    if definition.key is None:
        raise Invalid(f"The declared job of the task {definition.task!r} needs a key.")
    return definition.key


def fingerprint(definition: Definition) -> str:
    """Hash a declaration without its default values: a version of Ostinato with more policies, or with other
    defaults, must not take every declaration for a changed one."""
    said = _said(definition, Definition("", Manual(), policies=UNSAID))
    said.pop("declared", None)
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def _said(value: Any, default: Any) -> dict[str, Any]:
    """Return the fields that differ from their default, as plain values."""
    values = ((field.name, getattr(value, field.name)) for field in fields(value))
    return {name: _plain(each) for name, each in values if each != getattr(default, name)}


def _plain(value: Any) -> Any:
    match value:
        case Every() | Cron() | Once() | Manual():
            return schedule_text(value)
        case Policies():
            return _said(value, UNSAID)
        case Backoff():
            return _said(value, Backoff())
        case Window():
            return value.to_json()
        case tuple():
            return [_plain(each) for each in value]
        case _:
            return str(value)
