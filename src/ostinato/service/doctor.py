"""The doctor: checks of disk, clocks, secrets, workers and queues, each with advice."""

import json
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import tzdata

from ostinato.clock import SystemClock
from ostinato.config import Grants
from ostinato.config.extras import install
from ostinato.core.audit import FlawKind
from ostinato.core.auth import references
from ostinato.core.errors import Invalid
from ostinato.core.failing import Failing, above_usual
from ostinato.core.model import Json
from ostinato.core.payload import decode
from ostinato.core.read_models import WorkerRow
from ostinato.core.times import DAY, MINUTE, SECOND, format_duration
from ostinato.feature import our_features
from ostinato.store import migrate
from ostinato.store.audit import sentence
from ostinato.store.clock_record import SETTLED_AFTER
from ostinato.store.doctor import Checkup, DoctorSnapshot
from ostinato.store.sqlite import SqliteDatabase
from ostinato.store.store import Store

# -- Stored references to secrets that are not granted on this host

MOST_JOBS: Final = 10_000  # jobs that are read
FEW: Final = 3


@dataclass(frozen=True, slots=True, order=True)
class Ungranted:
    """A stored reference that is not granted on this host, and one of its users."""

    reference: str
    user: str
    is_ours: bool  # one of Ostinato's settings: no grant opens it

    @property
    def advice(self) -> str:
        if self.is_ours:
            return "It is one of Ostinato's settings: name another secret."
        return "Add it to OSTINATO_SECRETS where its worker runs."


def few(sentences: Sequence[str]) -> list[str]:
    """Return the first three, and the number of the others: headers and log lines must stay short."""
    more = len(sentences) - FEW
    return [*sentences[:FEW], *([f"and {more:,} more"] if more > 0 else [])]


def ungranted(store: Store, grants: Grants) -> list[Ungranted]:
    """List the references that are not granted here, by name."""
    found: dict[str, Ungranted] = {}
    for user, reference in _stored(store):
        if reference not in found and not grants.allows(reference):
            found[reference] = Ungranted(reference, user, grants.is_ours(reference))
    return sorted(found.values())


def _stored(store: Store) -> Iterator[tuple[str, str]]:
    """Yield users and their references: jobs of built-in tasks, and rows of features."""
    holders = store.database.features.holders
    for name, args in Checkup(store.database).naming_secrets(MOST_JOBS):
        yield from ((f"job {name}", each) for each in references(read(args), holders))
    for module in store.awake("references"):
        yield from module.references(store)


def read(text: Json) -> Any:
    """Read JSON of a row; None if it is broken, which `db check` reports."""
    try:
        return decode(text)
    except Invalid:
        return None


# -- The doctor: checks of disk, clocks, secrets, workers and queues, each with advice

LATE_AFTER: Final = MINUTE  # due times that are less late are not overdue
LATELY: Final = DAY
LEAST_ROOM: Final = 256 * 1024 * 1024  # bytes
STOPPING: Final = {
    FlawKind.UNREADABLE,
    FlawKind.NEXT_DUE,
    FlawKind.UNKNOWN_WORKER,
    FlawKind.WAITS,
}  # no work is done
SHOWN_REFERENCES: Final = 10  # references
MOST_FAILING: Final = 5  # jobs, each in a line of its own
DATABASES: Final = {"postgres": "PostgreSQL", "sqlite": "SQLite"}


class FindingState(StrEnum):
    """The state of a finding."""

    OK = "ok"
    LOOK = "look"  # a person should check it
    WRONG = "wrong"  # something does not run, or will not


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding: its subject, its state, and advice."""

    subject: str
    state: FindingState
    finding: str
    advice: str = ""


def check_up(store: Store, grants: Grants) -> list[Finding]:
    """Make all checks that are possible from this host."""
    database = store.database
    now = database.now()
    condition = still_flawed(store, Checkup(database).condition(now, LATE_AFTER, LATELY), now)
    return [
        Finding(
            "database",
            FindingState.OK,
            f"{DATABASES[database.dialect.kind]} {condition.version}, {database.name}",
        ),
        Finding("identity", FindingState.OK, str(migrate.identity_of(database))),
        Finding("schema", FindingState.OK, f"version {migrate.schema_version(database)}"),
        *_room(store),
        _clock(store),
        *_jumped(store.clock_record.jumped_at(), now),
        zone_data(tzdata.IANA_VERSION, now),
        *judge(condition, now),
        *failures(store.statistics.failing(now - LATELY, store.statistics.counters())),
        *secrets(ungranted(store, grants)),
        *_left_to_others(store),
        *_missing_features(store),
    ]


def _room(store: Store) -> Iterator[Finding]:
    if not isinstance(store.database, SqliteDatabase):
        return
    free = shutil.disk_usage(store.database.file.parent).free
    state = FindingState.OK if free >= LEAST_ROOM else FindingState.WRONG
    advice = "" if state is FindingState.OK else "Free disk space: a full disk stops everything."
    yield Finding("disk", state, f"{free // 2**20:,} MiB free", advice)


def _clock(store: Store) -> Finding:
    if isinstance(store.database, SqliteDatabase):
        return Finding("clock", FindingState.OK, "all processes use the clock of this host")
    asked = SystemClock().now()
    theirs = store.database.now()
    return clock_offset(asked + (SystemClock().now() - asked) / 2 - theirs)


def _jumped(at: datetime | None, now: datetime) -> Iterator[Finding]:
    if at is not None and timedelta(0) <= now - at < SETTLED_AFTER:
        advice = "Retention by age pauses for a day. Set the clock by NTP."
        yield Finding("clock", FindingState.LOOK, f"the clock was set {_ago(now - at)}", advice)


def clock_offset(ahead: timedelta) -> Finding:
    """Judge the difference between this host's clock and the database's, which all workers use."""
    where = "ahead of" if ahead > timedelta() else "behind"
    text = f"this host is {abs(ahead).total_seconds():.1f} s {where} the database"
    if abs(ahead) < SECOND:
        return Finding("clock", FindingState.OK, text)
    return Finding("clock", FindingState.LOOK, text, "Jobs follow the database's clock; set both by NTP.")


def zone_data(version: str, now: datetime) -> Finding:
    """Judge the age of the time zone data."""
    if int(version[:4]) >= now.year - 1:
        return Finding("zone data", FindingState.OK, f"tzdata {version}")
    advice = "Governments change time zones: pip install --upgrade tzdata."
    return Finding("zone data", FindingState.LOOK, f"tzdata {version}", advice)


def secrets(missing: Sequence[Ungranted]) -> Iterator[Finding]:
    """List the stored references that are not granted on this host; apart, those that no grant can open."""
    if not missing:
        yield Finding("secrets", FindingState.OK, "this host grants all stored references")
    ours = [each for each in missing if each.is_ours]
    if others := [each for each in missing if not each.is_ours]:
        names = ",".join(each.reference for each in others[:SHOWN_REFERENCES])
        advice = f"Where the workers run, add them to OSTINATO_SECRETS: {names}"
        yield Finding("secrets", FindingState.LOOK, _ungranted(others), advice)
    if ours:
        yield Finding("secrets", FindingState.LOOK, _ungranted(ours), ours[0].advice)


def _ungranted(missing: Sequence[Ungranted]) -> str:
    text = ", ".join(f"{each.reference} ({each.user})" for each in missing[:SHOWN_REFERENCES])
    return f"{len(missing)} not granted on this host: {text}"


def _left_to_others(store: Store) -> Iterator[Finding]:
    """List the features in use whose extra this installation lacks, so that its workers leave them to others."""
    for feature in store.database.features:
        if feature.duties and not feature.is_installed and store.is_awake(feature):
            text = f"a worker with this installation leaves {feature.name} to other workers"
            yield Finding("extras", FindingState.LOOK, text, install(feature.extra))


def _missing_features(store: Store) -> Iterator[Finding]:
    """List the features that the database has and this installation lacks."""
    for name in store.missing_features():
        text = f"the database has the feature {name}, this installation does not"
        advice = f"Its jobs do not run here. Install its package, and add {name} to OSTINATO_FEATURES."
        yield Finding("features", FindingState.LOOK, text, advice)


def failures(found: Sequence[Failing]) -> Iterator[Finding]:
    """List the jobs that fail above their usual rate."""
    above = [each for each in found if above_usual(each.lately, each.before)]
    for each in above[:MOST_FAILING]:
        advice = f"ostinato execution list --status failed --task {shlex.quote(each.task)}"
        yield Finding("failures", FindingState.LOOK, each.sentence, advice)
    if len(above) > MOST_FAILING:
        text = f"{_jobs(len(above) - MOST_FAILING)} more fail above their usual rate"
        yield Finding("failures", FindingState.LOOK, text, "ostinato execution list --status failed")
    if not above:
        yield Finding(
            "failures",
            FindingState.OK,
            f"no job fails above its usual rate in the last {format_duration(LATELY)}",
        )


def judge(condition: DoctorSnapshot, now: datetime) -> Iterator[Finding]:
    """Judge a snapshot of the database."""
    at_work = [each for each in condition.workers if each.closed_at is None and each.lease_until > now]
    yield from _went_back(condition, now)
    yield _audit(condition)
    yield _workers(condition, at_work)
    yield from _lost(condition, at_work, now)
    yield from _jobs_without_worker(condition, at_work)
    yield from _dispatching(condition, now)
    yield from _backlog(condition, now)
    yield from _unsaved(condition)


def still_flawed(store: Store, condition: DoctorSnapshot, now: datetime) -> DoctorSnapshot:
    """Audit the jobs with reported flaws again, and keep the flaws that are still there."""
    ids = dict.fromkeys(flaw.job_id for flaw in condition.flaws if flaw.job_id is not None)
    return replace(condition, flaws=tuple(store.audit.of(list(ids), now)))


def _audit(condition: DoctorSnapshot) -> Finding:
    """Judge the flaws that the auditor has reported in the last days."""
    flaws = condition.flaws
    if not flaws:
        return Finding("audit", FindingState.OK, "no flaws known")
    first, jobs = flaws[0], len({flaw.job_id for flaw in flaws})
    count = "1 flaw" if len(flaws) == 1 else f"{len(flaws)} flaws"
    text = f"{count} in {_jobs(jobs)}. {sentence(first)}"
    state = FindingState.WRONG if any(flaw.kind in STOPPING for flaw in flaws) else FindingState.LOOK
    return Finding("audit", state, text, "ostinato db check lists all flaws; docs/guides/operating.md says what to do.")


def _went_back(condition: DoctorSnapshot, now: datetime) -> Iterator[Finding]:
    if condition.went_back_at is None:
        return
    text = f"the database was restored to an earlier state, or lost commits, {_ago(now - condition.went_back_at)}"
    advice = "Runs of the lost time run again. The event database.went_back says how much was lost."
    yield Finding("identity", FindingState.LOOK, text, advice)


def _workers(condition: DoctorSnapshot, at_work: list[WorkerRow]) -> Finding:
    if at_work:
        running, room = sum(each.running for each in at_work), sum(each.concurrency for each in at_work)
        return Finding("workers", FindingState.OK, f"{len(at_work)} running, {running} of {room} slots in use")
    state = FindingState.WRONG if condition.wanted else FindingState.LOOK
    return Finding("workers", state, "no worker is running", "Start one: ostinato worker --app MODULE:APP.")


def _lost(condition: DoctorSnapshot, at_work: list[WorkerRow], now: datetime) -> Iterator[Finding]:
    silent = [each for each in condition.workers if each.closed_at is None and each not in at_work]
    lost = [each for each in condition.workers if each.closed_as == "lost"]
    if silent or lost:
        text = f"{len(silent) + len(lost)} died or stopped responding in the last {format_duration(LATELY)}"
        yield Finding("lost workers", FindingState.LOOK, text, "Check their logs: killed, out of memory, or suspended?")


def _jobs_without_worker(condition: DoctorSnapshot, at_work: list[WorkerRow]) -> Iterator[Finding]:
    """Find jobs that no running worker can run: it does not know their task, or does not serve their queue."""
    if not at_work:
        return
    for wanted in condition.wanted:
        knowing = [each for each in at_work if wanted.task in each.task_names]
        text = f"{_jobs(wanted.jobs)} of the task {wanted.task!r} in the queue {wanted.queue!r}"
        if not knowing:
            command = our_features().install(wanted.task)
            advice = (
                f"No running worker knows this task. Install what it needs where one runs: {command}"
                if command
                else "No running worker knows this task: start one that does, or delete the jobs."
            )
            yield Finding("jobs without a worker", FindingState.WRONG, text, advice)
        elif not any(_serves(each, wanted.queue) for each in knowing):
            advice = "No worker that knows this task serves this queue: see --queues."
            yield Finding("jobs without a worker", FindingState.WRONG, text, advice)


def _serves(worker: WorkerRow, queue: str) -> bool:
    served = json.loads(worker.queues)
    return not served or queue in served


def _dispatching(condition: DoctorSnapshot, now: datetime) -> Iterator[Finding]:
    if condition.unfired and condition.unfired_since is not None:
        text = f"{_jobs(condition.unfired)} were due and not fired, the oldest {_ago(now - condition.unfired_since)}"
        yield Finding("due times", FindingState.WRONG, text, "Start ostinato serve or a worker: no process fires them.")
    else:
        yield Finding("due times", FindingState.OK, "none is overdue")
    if condition.set_aside:
        text = f"{_jobs(condition.set_aside)} could not be fired and are set aside"
        yield Finding("due times", FindingState.WRONG, text, "See the log of the process that tried.")


def _backlog(condition: DoctorSnapshot, now: datetime) -> Iterator[Finding]:
    paused = {queue.name: queue for queue in condition.queues if queue.paused_at is not None}
    for queue in paused.values():
        by = f" by {queue.paused_by}" if queue.paused_by else ""
        text = f"the queue {queue.name!r} is paused{by}, with {queue.queued} waiting"
        yield Finding("backlog", FindingState.LOOK, text, f"ostinato queue resume {queue.name}")
    late = [each for each in condition.waiting if now - each.since > LATE_AFTER and each.queue not in paused]
    for waiting in late:
        text = f"{waiting.count} wait in the queue {waiting.queue!r}, the oldest since {_ago(now - waiting.since)}"
        yield Finding("backlog", FindingState.LOOK, text, "Start more workers, or raise --concurrency.")
    if not late:
        yield Finding("backlog", FindingState.OK, f"{sum(each.count for each in condition.waiting)} wait to start")


def _unsaved(condition: DoctorSnapshot) -> Iterator[Finding]:
    if condition.unsaved:
        text = f"{condition.unsaved} cannot be saved; their workers hold them and retry every minute"
        advice = "See the log of the worker. Do not kill it: the results that it holds would be lost."
        yield Finding("results", FindingState.WRONG, text, advice)


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _ago(length: timedelta) -> str:
    return f"{format_duration(length // SECOND * SECOND)} ago"
