"""The begin and end of every writing transaction: lock jobs and read their values; save changes.

Locks are taken in one order everywhere: a worker, queues, jobs by id, then their live rows. A live row is locked only
under the lock of its job, or by a statement that skips locked rows.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final, Protocol
from uuid import UUID

from ostinato.core.errors import NOT_READABLE
from ostinato.core.lifecycle.draft import Draft, Over, RunPlan
from ostinato.core.model import (
    AskedBy,
    Chance,
    Change,
    Definition,
    Event,
    Execution,
    Facts,
    Job,
    Json,
    Live,
    Skip,
    WaitsFor,
)
from ostinato.core.policy import Policies
from ostinato.core.schedule import is_recurring
from ostinato.feature import Features
from ostinato.store import rows
from ostinato.store.database import Database, Tx
from ostinato.store.rows import from_micros, to_bytes, to_uuid

# -- Rows that features write in the transactions in which changes of jobs are saved, such as notices


class _ChangeWriter(Protocol):
    """The part of a feature that writes rows about changes. Its errors undo the changes too, so it catches its bugs."""

    @property
    def wants_successes(self) -> bool:
        """True while it writes about plain successes; then they are settled with a Change, which takes longer."""

    def write(self, tx: Tx, changes: Sequence[Change]) -> None:
        """Write about the changes of a transaction."""

    def write_events(self, tx: Tx, events: Sequence[Event]) -> None:
        """Write about events that no change carries."""


class ChangeWriters:
    """The writers of a process. There are none until a feature adds its own, when it is first used."""

    def __init__(self) -> None:
        self._writers: tuple[_ChangeWriter, ...] = ()

    def add(self, writer: _ChangeWriter) -> None:
        self._writers += (writer,)

    @property
    def want_successes(self) -> bool:
        return any(each.wants_successes for each in self._writers)

    def write(self, tx: Tx, changes: Sequence[Change]) -> None:
        for each in self._writers:
            each.write(tx, changes)

    def write_events(self, tx: Tx, events: Sequence[Event]) -> None:
        for each in self._writers:
            each.write_events(tx, events)


# -- The rules of steps, by the task of their run: a feature has them (its steps.py), and the store asks them.
#
# The mechanism is in core/lifecycle/draft.py. A process that lacks the rules of a run leaves it and its steps to
# others.

# The shortest timeout: for a step that begins when its run is out of time.
MOMENT: Final = timedelta(milliseconds=1)


class StepRules(Protocol):
    """The rules of a task whose runs have steps: `plan` and `policies` read, the others are pure."""

    def plan(self, tx: Tx, job: Job, run: Live, live: Live) -> RunPlan:
        """Return the rules of a run; `live` is the run itself if it begins, else one of its steps."""
        ...

    def policies(self, tx: Tx, checkpoint: Json | None, step: Live) -> Policies | None:
        """Return the timeout and the retries of a step, by the checkpoint of its run; None if that has none."""
        ...

    def time_out(self, draft: Draft, run: Live) -> Over:
        """Ask the steps of a run to stop; the run is over when they have."""
        ...

    def anew(self, checkpoint: Json | None) -> Json | None:
        """Return the checkpoint of a run that begins again from the start."""
        ...


class Steps:
    """The rules of steps in this process."""

    def __init__(self, features: Features, part: Callable[[Any], Any]) -> None:
        self._features, self._part = features, part

    def of(self, task: str) -> StepRules | None:
        """Return the rules of a task whose runs have steps; None if no feature here has them."""
        kind = self._features.steps(task)
        rules: StepRules | None = None if kind is None else self._part(kind)
        return rules

    def missing(self, lives: Sequence[Live], live: Live) -> str | None:
        """Return the task of the run if its rules are missing here."""
        run = _run_of(lives, live)
        return run.task if run is not None and self.of(run.task) is None else None

    def plan(self, tx: Tx, job: Job, lives: Sequence[Live], live: Live) -> RunPlan | None:
        """Return the rules of a run that begins, or of the run of a step; None if that is over."""
        run = _run_of(lives, live)
        rules = None if run is None else self.of(run.task)
        return None if run is None or rules is None else rules.plan(tx, job, run, live)

    def anew(self, last: Execution) -> Json | None:
        """Return the checkpoint of the next attempt if that begins again from the start."""
        rules = self.of(last.task)
        return None if rules is None else rules.anew(last.checkpoint)

    def definitions(
        self, tx: Tx, steps: Sequence[Live], found: dict[UUID, Definition], now: datetime
    ) -> dict[UUID, Definition | None]:
        """Return the definitions of steps by id: the job's with the policies of the step, within the time of its run.

        A step whose rules are missing here has None.
        """
        runs = {
            (to_uuid(job_id), number): (task, from_micros(began), checkpoint)
            for job_id, number, task, began, checkpoint in tx.rows("runs_of", ids=list({s.job_id for s in steps}))
        }
        made: dict[UUID, Definition | None] = {}
        for step in steps:
            if (run := runs.get((step.job_id, step.number))) is None or step.job_id not in found:
                continue
            task, began, checkpoint = run
            rules, definition = self.of(task), found[step.job_id]
            if rules is None:
                made[step.id] = None
            elif (own := rules.policies(tx, checkpoint, step)) is not None:
                policies = _within(own, definition.policies.timeout, began, now)
                made[step.id] = replace(definition, task=step.task, args=step.args or "{}", policies=policies)
        return made


def _run_of(lives: Sequence[Live], live: Live) -> Live | None:
    """Return the run that a step belongs to; of a run, itself."""
    if not live.step:
        return live
    return next((each for each in lives if each.number == live.number and each.waits_for is WaitsFor.STEPS), None)


def _within(policies: Policies, timeout: timedelta | None, began: datetime, now: datetime) -> Policies:
    """Return the policies of a step with a timeout that ends with its run's."""
    if timeout is None:
        return policies
    left = max(began + timeout - now, MOMENT)
    return replace(policies, timeout=left if policies.timeout is None else min(left, policies.timeout))


# -- The begin and end of every writing transaction: lock jobs and read their values; save changes

log = logging.getLogger("ostinato.store")


class Definitions:
    """Parsed definitions by job and version: the definition of a recurring job is read once, however often it runs."""

    def __init__(self, most: int = 20_000) -> None:
        self._most = most
        self._known: OrderedDict[bytes, tuple[int, Definition]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, tx: Tx, versions: Mapping[bytes, int]) -> dict[bytes, Definition]:
        """Return the definitions of jobs at these versions, by id; leave out those that cannot be read."""
        found, missing = self.looked_up(versions)
        return found | self.read(tx.rows("definitions", ids=missing)) if missing else found

    def looked_up(self, versions: Mapping[bytes, int]) -> tuple[dict[bytes, Definition], list[bytes]]:
        """Return the cached definitions, and the ids of jobs without one."""
        found: dict[bytes, Definition] = {}
        missing: list[bytes] = []
        with self._lock:
            for job_id, version in versions.items():
                known = self._known.get(job_id)
                if known is not None and known[0] == version:
                    found[job_id] = known[1]
                else:
                    missing.append(job_id)
        return found, missing

    def read(self, new: Sequence[rows.Row]) -> dict[bytes, Definition]:
        """Read rows of `definitions`; leave out those that cannot be read."""
        read: dict[bytes, Definition] = {}
        for row in new:
            try:
                job_id, version, definition = rows.definition_of(row)
            except NOT_READABLE as error:
                # written by hand or by a newer version: this job is set aside, the others continue
                log.error("The definition of a job cannot be read: job_id=%s error=%s", to_uuid(row[0]), error)
                continue
            read[job_id] = definition
            if is_recurring(definition.schedule):
                self._keep(job_id, version, definition)
        return read

    def _keep(self, job_id: bytes, version: int, definition: Definition) -> None:
        with self._lock:
            self._known[job_id] = version, definition
            if len(self._known) > self._most:
                self._known.popitem(last=False)


class QueueDuty:
    """A duty of the queue, in transactions of its own."""

    def __init__(
        self,
        database: Database,
        definitions: Definitions,
        chance: Chance,
        writers: ChangeWriters,
        steps: Steps,
        *,
        fast_path: bool = True,
    ) -> None:
        self._database = database
        self._definitions = definitions
        self._chance = chance
        self._writers = writers
        self._steps = steps
        self._fast_path = fast_path


Lives = dict[UUID, list[Live]]
NOTHING_KNOWN: Mapping[UUID, Facts] = {}


def locked_jobs(tx: Tx, definitions: Definitions, ids: Iterable[UUID]) -> dict[UUID, Job]:
    """Lock jobs in the order of their ids."""
    facts = dict(map(rows.facts_of, tx.rows("lock_facts", ids=sorted(ids))))
    return with_definitions(tx, definitions, facts)


def with_definitions(tx: Tx, definitions: Definitions, facts: Mapping[UUID, Facts]) -> dict[UUID, Job]:
    """Return jobs from their facts; leave out those whose definition cannot be read."""
    found = definitions.of(tx, {to_bytes(job_id): each.version for job_id, each in facts.items()})
    return {
        job_id: Job(job_id, definition, each)
        for job_id, each in facts.items()
        if (definition := found.get(to_bytes(job_id))) is not None
    }


def lives_of(tx: Tx, ids: Sequence[UUID], statement: str = "lock_live") -> Lives:
    """Return the live rows of jobs, by job."""
    lives: Lives = {job_id: [] for job_id in ids}
    for row in tx.rows(statement, ids=ids):
        live = rows.LIVE.of(row)
        lives.setdefault(live.job_id, []).append(live)
    return lives


def lock_running(tx: Tx, claimed: Sequence[Live]) -> tuple[dict[UUID, Facts], Lives]:
    """Lock the jobs of claimed executions with all their live rows; return the facts and the rows, by job.

    Of a row that is still under its claim only the marks are read; the rest cannot have changed.
    """
    known = {live.id: live for live in claimed}
    facts, lives, others = dict[UUID, Facts](), Lives(), list[UUID]()
    for row in tx.rows("lock_running", ids=list({live.job_id for live in claimed})):
        job_id, live_id, (fence, worker_id, *marks) = (
            to_uuid(row[0]),
            to_uuid(row[FACTS_END]),
            row[FACTS_END + 1 :],
        )
        if job_id not in facts:
            facts[job_id], lives[job_id] = rows.FACTS.of(row[1:FACTS_END]), []
        live = known.get(live_id)
        if live is None or live.fence != fence or worker_id is None or to_uuid(worker_id) != live.worker_id:
            others.append(live_id)
        else:
            lives[job_id].append(_marked(live, *marks))
    for row in tx.rows("live_by_id", ids=others) if others else ():
        other = rows.LIVE.of(row)
        lives[other.job_id].append(other)
    return facts, lives | _found_late(tx, facts, lives)


def _found_late(tx: Tx, facts: Mapping[UUID, Facts], lives: Lives) -> Lives:
    """Return the live rows of jobs that count newer executions than were found.

    After a wait for a lock, PostgreSQL returns the newest version of each row, but no rows added meanwhile.
    """
    late = [
        job_id
        for job_id, each in facts.items()
        if each.last_execution_number > max((live.execution_number for live in lives[job_id]), default=0)
    ]
    return lives_of(tx, late) if late else {}


FACTS_END = 1 + len(rows.FACTS.columns)


def _marked(live: Live, cancel_asked_at: int | None, cancel_by: str, checkpoint: str | None) -> Live:
    if cancel_asked_at is None and checkpoint == live.checkpoint:
        return live
    asked = None if cancel_asked_at is None else from_micros(cancel_asked_at)
    return replace(live, cancel_asked_at=asked, cancel_by=cancel_by, checkpoint=checkpoint)


def last_failure(tx: Tx, job: Job) -> Execution | None:
    """Return the newest failed occurrence after its last attempt; for a recurring job, the newest of its schedule."""
    row = tx.row("last_failure", job=job.id, asked=AskedBy.SCHEDULE if is_recurring(job.schedule) else None)
    return None if row is None else rows.EXECUTION.of(row)


def insert(tx: Tx, changes: Sequence[Change]) -> None:
    """Save new jobs."""
    if changes:
        tx.run("insert_jobs", [rows.new_job(change.job) for change in changes])
        _save_the_rest(tx, changes)


def save(tx: Tx, changes: Sequence[Change], before: Mapping[UUID, Facts] = NOTHING_KNOWN) -> None:
    """Save the decisions of rules about locked jobs: a handful of statements for any number of changes.

    `before` are the facts before the rules, if known: then only new rows are written.
    """
    if not changes:
        return
    usual, others = list[Change](), list[Change]()
    for change in changes:
        (usual if _only_the_usual(change, before.get(change.job.id)) else others).append(change)
    if usual:
        tx.run("update_usual_facts", [rows.usual_facts(change) for change in usual])
    if others:
        tx.run("update_facts", [rows.changed_facts(change) for change in others])
    _save_the_rest(tx, changes)


def _only_the_usual(change: Change, before: Facts | None) -> bool:
    return before is not None and rows.OTHER_FACTS(before) == rows.OTHER_FACTS(change.job.facts)


def _save_the_rest(tx: Tx, changes: Sequence[Change]) -> None:
    """Save first the changes that free a slot (ended rows hold theirs), then those that take one."""
    tx.touch(change.job.id for change in changes)
    dropped = [live_id for change in changes for live_id in change.drop]
    ended = [rows.EXECUTION.row(execution) for change in changes for execution in change.ended]
    altered = [rows.UPDATED_LIVE(live) for change in changes for live in change.alter]
    added = [rows.LIVE.row(live) for change in changes for live in change.add]
    events = [rows.EVENT.row(event) for change in changes for event in change.events]
    if dropped:
        tx.run("delete_live", ids=dropped)
    if ended:
        tx.run("insert_executions", ended)
    if altered:
        tx.run("update_live", altered)
    if added:
        tx.run("insert_live", added)
    if events:
        tx.run("insert_events", events)
    _save_skips(tx, list(chain.from_iterable(change.skips for change in changes)))
    _rewrite_skips(tx, list(chain.from_iterable(change.rewritten for change in changes)))


def _save_skips(tx: Tx, skips: Sequence[Skip]) -> None:
    """Save skips; a skip that continues the last one of its job extends that row."""
    following = [skip for skip in skips if skip.follows is not None]
    extended: set[tuple[UUID, object]] = set()
    if following:
        batch = [(s.id, s.job_id, s.reason, s.follows, s.last_due_at, s.count, s.in_the_way) for s in following]
        extended = {(to_uuid(job_id), from_micros(last)) for job_id, last in tx.rows("extend_skips", batch)}
    new = [rows.SKIP.row(skip) for skip in skips if not _was_extended(skip, extended)]
    if new:
        tx.run("insert_skips", new)


def _was_extended(skip: Skip, extended: set[tuple[UUID, object]]) -> bool:
    return skip.follows is not None and (skip.job_id, skip.last_due_at) in extended


def _rewrite_skips(tx: Tx, skips: Sequence[Skip]) -> None:
    shorter = [(skip.id, skip.last_due_at, skip.count) for skip in skips if skip.count]
    emptied = [skip.id for skip in skips if not skip.count]
    if shorter:
        tx.run("rewrite_skips", shorter)
    if emptied:
        tx.run("delete_skips", ids=emptied)


def leaves_work(changes: Iterable[Change]) -> bool:
    """Return True if these changes leave work for a worker or a dispatcher."""
    return any(change.add or change.alter or change.drop or change.job.facts.next_due_at for change in changes)
