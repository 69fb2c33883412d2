"""Reads for the auditor: whole jobs with their rows, a few per snapshot, checked by the rules of core/audit."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from ostinato.core.audit import AuditFlaw, FlawKind, Past, Pruned, audit, set_back_of, unreadable
from ostinato.core.errors import NOT_READABLE
from ostinato.core.hot import hot_dataclass
from ostinato.core.lifecycle.due_times import FIRST_INSTANT, LAST_INSTANT
from ostinato.core.model import FIRST_ID, AskedBy, Event, Job, Live, Skip
from ostinato.core.outcome import OutcomeKind
from ostinato.core.times import zone_data_version
from ostinato.store import rows
from ostinato.store.clock_record import noted_instant
from ostinato.store.columns import columns_of
from ostinato.store.database import Database, Tx
from ostinato.store.rows import from_micros, to_bytes, to_micros, to_uuid

JOBS: Final = 100  # maximum in one snapshot
ROWS: Final = 20_000  # executions in one snapshot; a single job may have more
MOST_ORPHANS: Final = 1000  # rows of one kind without a job
SHOWN_EVENTS: Final = 100  # events of flaws that doctor and dashboard read
EVENTS_SINCE: Final = "events_since"  # retention has removed older ones
ZONE_DATA: Final = "zone_data"
ZONES_SINCE: Final = "zone_data_since"
TEXTS: Final = ("schedule", "policies", "args", "tags", "metadata")


@hot_dataclass(frozen=True, slots=True)
class _EndedRow:
    """The part of an execution that an audit needs."""

    number: int
    step: str
    attempt: int
    execution_number: int
    asked: AskedBy
    due_at: datetime
    run_at: datetime
    queued_at: datetime
    started_at: datetime | None
    finished_at: datetime
    outcome: OutcomeKind
    version: int | None
    failures: int
    losses: int


ENDED: Final = rows.Shape(_EndedRow)


@dataclass(frozen=True, slots=True)
class _Audited:
    """The flaws found by an audit of some jobs, the number of jobs, and the last job (None: at the end)."""

    flaws: list[AuditFlaw]
    jobs: int
    last: UUID | None


class Audit:
    """Reads of an audit, without locks. Each call is one snapshot, so that a job that changes meanwhile shows no
    flaw."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def problems(self, now: datetime | None = None) -> list[str]:
        """List all flaws of the database as sentences."""
        return [sentence(flaw) for flaw in self.everything(now or self._database.now())]

    def everything(self, now: datetime) -> Iterator[AuditFlaw]:
        """Audit all jobs, page by page, and look for rows without a job."""
        yield from self._rows_without_job()
        after: UUID | None = FIRST_ID
        while after is not None:
            page = self.page(after, now)
            yield from page.flaws
            after = page.last

    def page(self, after: UUID, now: datetime, jobs: int = JOBS, most: int = ROWS) -> _Audited:
        """Audit the next jobs after an id, at least one, until they have `most` executions together."""
        with self._database.read() as tx:
            there = tx.rows("jobs_to_audit", after=after, limit=jobs)
            found = _up_to(most, there)
            flaws = _audited(tx, found, now)
        at_the_end = len(there) < jobs and len(found) == len(there)
        return _Audited(flaws, len(found), None if at_the_end else to_uuid(found[-1][0]))

    def of(self, ids: Sequence[UUID], now: datetime) -> list[AuditFlaw]:
        """Audit these jobs."""
        with self._database.read() as tx:
            return _audited(tx, tx.rows("pruned_of", ids=list(ids)), now) if ids else []

    def reported_since(self, since: datetime, ids: Sequence[UUID]) -> set[tuple[UUID | None, FlawKind]]:
        """List the flaws of these jobs that events have reported since an instant."""
        with self._database.read() as tx:
            found = tx.rows("reported_flaws", ids=list(ids), since=since)
        reported = [_reported(to_uuid(job_id), data) for job_id, data in found]
        return {(flaw.job_id, flaw.kind) for flaw in reported if flaw is not None}

    def _rows_without_job(self) -> Iterator[AuditFlaw]:
        with self._database.read() as tx:
            for table, row_id in tx.rows("orphans", limit=MOST_ORPHANS):
                yield AuditFlaw(FlawKind.ORPHAN, None, f"A row of {table} belongs to no job: {to_uuid(row_id)}")
            for (execution_id,) in tx.rows("lines_without_size", limit=MOST_ORPHANS):
                yield AuditFlaw(FlawKind.ORPHAN, None, f"The log of {to_uuid(execution_id)} is of unknown size")


def recent_flaws(tx: Tx, since: datetime) -> list[AuditFlaw]:
    """List the flaws reported by events since an instant, the newest first."""
    found = [
        _reported(to_uuid(job_id), data) for job_id, data in tx.rows("recent_flaws", since=since, limit=SHOWN_EVENTS)
    ]
    newest: dict[tuple[UUID | None, FlawKind], AuditFlaw] = {}
    for flaw in found:
        if flaw is not None:
            newest.setdefault((flaw.job_id, flaw.kind), flaw)
    return list(newest.values())


def sentence(flaw: AuditFlaw) -> str:
    """Return a flaw as a sentence, with its job."""
    return f"{flaw.sentence}." if flaw.job_id is None else f"Job {flaw.job_id}: {flaw.sentence}."


def _up_to(most: int, jobs: Sequence[rows.Row]) -> Sequence[rows.Row]:
    """Return the first jobs, at least one, with at most `most` executions together: rows bound the memory, not jobs."""
    total = 0
    for count, (_, ended, _) in enumerate(jobs):
        total += ended
        if total > most and count:
            return jobs[:count]
    return jobs


def _audited(tx: Tx, found: Sequence[rows.Row], now: datetime) -> list[AuditFlaw]:
    if not found:
        return []
    reading = _Reading(tx, [to_uuid(job_id) for job_id, _, _ in found])
    return [flaw for job_id, _, pruned in found for flaw in reading.audit(to_bytes(job_id), pruned, now)]


class _Reading:
    """All rows of some jobs from one snapshot, by job id."""

    def __init__(self, tx: Tx, ids: Sequence[UUID]) -> None:
        self._facts = _by_job(tx.rows("facts", ids=ids))
        self._definitions = _by_job(tx.rows("definitions", ids=ids))
        self._lives = _by_job(tx.rows("live_of", ids=ids), at=1)
        self._executions = _by_job(tx.rows("audited_executions", ids=ids))
        self._skips = _by_job(tx.rows("audited_skips", ids=ids), at=1)
        self._events = _by_job(tx.rows("audited_events", ids=ids), at=3)
        self._workers = _known_workers(tx, self._lives)
        self._past = _past(tx)

    def audit(self, job_id: bytes, pruned: str, now: datetime) -> list[AuditFlaw]:
        """Audit one job; rows that cannot be read are a flaw."""
        known, texts = to_uuid(job_id), _texts(self._definitions[job_id][0])
        flaws = unreadable(known, {**texts, "pruned": pruned})
        if flaws:
            return flaws
        try:
            return self._audit(job_id, _pruned(json.loads(pruned)), now)
        except NOT_READABLE as error:
            return [AuditFlaw(FlawKind.UNREADABLE, known, f"its rows cannot be read: {error}")]

    def _audit(self, job_id: bytes, pruned: Pruned, now: datetime) -> list[AuditFlaw]:
        found_id, facts = rows.facts_of(self._facts[job_id][0])
        _, _, definition = rows.definition_of(self._definitions[job_id][0])
        lives: list[Live] = [rows.LIVE.of(row) for row in self._lives[job_id]]
        skips: list[Skip] = [rows.SKIP.of(row) for row in self._skips[job_id]]
        events: list[Event] = [rows.EVENT.of(row) for row in self._events[job_id]]
        ended = [ENDED.of(row[1:]) for row in self._executions[job_id]]
        past = Past(events, pruned, self._past.known_since, self._past.set_back, self._past.zones_since, self._workers)
        return audit(Job(found_id, definition, facts), lives, ended, skips, past, now)


def _by_job(found: Sequence[rows.Row], at: int = 0) -> Mapping[bytes, list[rows.Row]]:
    grouped: dict[bytes, list[rows.Row]] = defaultdict(list)
    for row in found:
        grouped[to_bytes(row[at])].append(row)
    return grouped


def _texts(definition: rows.Row) -> dict[str, str]:
    """Return the columns of a definition that are JSON, by name."""
    cells = zip(rows.DEFINITION.columns, definition[2:], strict=True)
    return {name: text for name, text in cells if columns_of("definition")[name] == "json"}


def _known_workers(tx: Tx, lives: Mapping[bytes, Sequence[rows.Row]]) -> frozenset[UUID]:
    held = {to_uuid(row[HOLDER]) for own in lives.values() for row in own if row[HOLDER] is not None}
    return frozenset(to_uuid(row[0]) for row in tx.rows("known_workers", ids=sorted(held))) if held else frozenset()


HOLDER: Final = rows.LIVE.columns.index("worker_id")


def _reported(job_id: UUID, data: str) -> AuditFlaw | None:
    """Read an event `audit.flaw`; None if it cannot be read, or if only a newer version knows its kind."""
    try:
        event = json.loads(data)
        return AuditFlaw(FlawKind(event["flaw"]), job_id, event["sentence"])
    except NOT_READABLE:
        return None


def _past(tx: Tx) -> Past:
    """Read the part of history that all jobs share."""
    known_since = noted_instant(tx, EVENTS_SINCE) or FIRST_INSTANT
    jumps = tx.rows("clocks_set_back")
    set_back = [back for at, data in jumps if (back := set_back_of(from_micros(at), data))]
    return Past(known_since=known_since, set_back=set_back, zones_since=_zones_since(tx))


def _zones_since(tx: Tx) -> datetime | None:
    """Return the newest change of zone data; None if this process cannot recompute due times with its data."""
    version, since = tx.row("remembered", key=ZONE_DATA), tx.row("remembered", key=ZONES_SINCE)
    if version is not None and version[0] != zone_data_version():
        return None
    try:
        return FIRST_INSTANT if since is None else datetime.fromisoformat(since[0]).astimezone(UTC)
    except NOT_READABLE:
        return None


def _pruned(noted: Mapping[str, Any]) -> Pruned:
    """Read a note of retention. Notes of older versions have no due time: no due time up to now can be recomputed."""
    counts = {name: count for name, count in noted.items() if name not in ("until", "number")}
    until = from_micros(noted["until"]) if "until" in noted else LAST_INSTANT if counts else FIRST_INSTANT
    return Pruned(counts, until, noted.get("number", 2**62 if counts else 0))


def noted(pruned: Mapping[str, Any], now: datetime, until: datetime, number: int = 0) -> dict[str, Any]:
    """Return the note of retention: since when the records of a job are complete."""
    before = pruned.get("until", to_micros(now) if pruned else None)
    times = [each for each in (before, to_micros(until)) if each is not None]
    return {**pruned, "until": max(times), "number": max(pruned.get("number", 0), number)}


def note_events_gone(tx: Tx, before: datetime) -> None:
    """Note that events before an instant were removed."""
    since = max(before, noted_instant(tx, EVENTS_SINCE) or before)
    tx.run("remember", key=EVENTS_SINCE, value=str(to_micros(since)))
