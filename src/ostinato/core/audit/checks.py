"""Every check of the auditor: of records and of due times."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import heappop, heappush
from itertools import islice, pairwise
from operator import attrgetter
from typing import Final
from uuid import UUID

from ostinato.core.audit.case import AuditFlaw, Case, EndedRun, FlawKind, Found, Past
from ostinato.core.encoding import policies_of, schedule_of
from ostinato.core.errors import NOT_READABLE, Invalid
from ostinato.core.hot import hot_dataclass
from ostinato.core.lifecycle.due_times import (
    FIRED_AHEAD,
    FIRST_INSTANT,
    INSTANT,
    count_due,
    due_times,
    newest_due,
    next_due,
)
from ostinato.core.model import MAX_LOSSES, WAITING_PLACE, Job, Live, Skip, SkipReason, WaitsFor
from ostinato.core.outcome import OutcomeKind
from ostinato.core.payload import decode
from ostinato.core.policy import CatchUp, WhenExhausted
from ostinato.core.schedule import Once
from ostinato.core.times import CLOCKS_AGREE

# -- Records: executions, live rows, numbers and counters agree with each other

FAILURES = (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT)
# The reasons of skips that a queued row becomes when it is withdrawn.
WITHDRAWN = (SkipReason.PAUSED, SkipReason.OVERLAP, SkipReason.FAILED)
# Events that may take back a row queued ahead of its time, also by a clock that was set back since.
TAKES_BACK = ("job.paused", "job.edited", "job.cancelled", "job.exhausted", "job.restarted")


def counters(case: Case) -> Found:
    """Check G9: counters equal history plus the rows that retention removed."""
    gone, history = case.past.pruned.counts, Counter(each.outcome for each in case.ended)
    for result in OutcomeKind:
        counted, there, pruned = getattr(case.facts, result.value), history[result], gone.get(result, 0)
        if counted != there + pruned:
            yield FlawKind.COUNTER, f"it counts {counted} {result}; history has {there}, and {pruned} pruned"
    skipped, pruned = sum(skip.count for skip in case.skips), gone.get("skipped", 0)
    if case.facts.skipped != skipped + pruned:
        text = f"it counts {case.facts.skipped} skipped; its skips have {skipped}, and {pruned} pruned"
        yield FlawKind.COUNTER, text
    if case.facts.repeats_done > case.facts.completed:
        text = f"it counts {case.facts.repeats_done} repeats, but only {case.facts.completed} completed"
        yield FlawKind.COUNTER, text


def numbers(case: Case) -> Found:
    """Check that each occurrence has a number, and each number an occurrence or a skip."""
    facts, rows = case.facts, case.rows
    highest = max((row.number for row in rows), default=0)
    if highest > facts.last_number:
        yield FlawKind.NUMBER, f"its last number is {facts.last_number}, but there is n{highest}"
    executions = max((row.execution_number for row in rows), default=0)
    if executions > facts.last_execution_number:
        text = f"its last execution number is {facts.last_execution_number}, but there is {executions}"
        yield FlawKind.NUMBER, text
    missing = 0 if case.set_back else _missing(case)  # a clock that is set back removes skips
    if missing > _explained(case):
        text = f"of its numbers up to {facts.last_number}, {missing} have neither an execution nor a skip"
        yield FlawKind.NUMBER, text


def _missing(case: Case) -> int:
    """Count the numbers without a row, within the reach of retention and events."""
    past, facts = case.past, case.facts
    old = [row.number for row in case.rows if row.queued_at < past.known_since or row.due_at <= past.pruned.until]
    since = max([past.pruned.number, *old])
    if facts.created_at < past.known_since and not old:
        since = max(since, min((row.number for row in case.rows), default=facts.last_number))
    return facts.last_number - since - len({row.number for row in case.rows if since < row.number <= facts.last_number})


def _explained(case: Case) -> int:
    """Count the numbers that may have no row: withdrawn as a skip, or taken back before their time."""
    withdrawn = sum(skip.count for skip in case.skips if skip.reason in WITHDRAWN)
    taken_back = sum(event.kind in TAKES_BACK for event in case.past.events)
    if case.facts.ended_as is not None and case.recurring:
        taken_back += 1  # its end took back the due time that was queued ahead
    return withdrawn + taken_back + case.past.pruned.counts.get("skipped", 0)


def identities(case: Case) -> Found:
    """Check G4: an attempt exists once, live or ended."""
    ended = {(each.number, each.step, each.attempt) for each in case.all_ended}
    for live in case.lives:
        if (live.number, live.step, live.attempt) in ended:
            yield FlawKind.TWICE, f"the execution {live.id} is live and has ended"
    counts = Counter(row.execution_number for row in case.rows)
    for number, count in counts.items():
        if count > 1:
            yield FlawKind.TWICE, f"the execution number {number} was given {count} times"
            return


def times(case: Case) -> Found:
    """Check that no run starts before it may, and that none ends before it starts."""
    started = [(each, each.started_at) for each in case.all_ended if each.started_at is not None]
    for each, start in started:
        if start < each.run_at:
            yield FlawKind.STARTED_EARLY, f"{_name(each)} started at {start}, before {each.run_at}"
            break
    for each, start in started:
        if each.finished_at < start - CLOCKS_AGREE and not _while_set_back(case, each):
            yield (
                FlawKind.ENDED_EARLY,
                f"{_name(each)} ended at {each.finished_at}, before its start at {start}",
            )
            break


def _while_set_back(case: Case, each: EndedRun) -> bool:
    """Return True if the clock may have been set back during the run. A lost run is ended later, by another process."""
    if each.outcome is OutcomeKind.LOST or each.started_at is None or each.started_at < case.past.known_since:
        return True
    return any(back.at <= each.started_at and each.finished_at <= back.until for back in case.set_back)


def budgets(case: Case) -> Found:
    """Check G7: an occurrence has at most `max_retries` + 1 failures and three losses."""
    rows = sorted(case.rows, key=lambda row: (row.number, row.attempt))
    for before, after in pairwise(rows):
        if before.number != after.number or isinstance(before, Live):
            continue
        flaw = _budget_flaw(case, before, after)
        if flaw:
            yield FlawKind.BUDGET, f"{_name(after)} {flaw}"
            return


def _budget_flaw(case: Case, before: EndedRun, after: EndedRun | Live) -> str:
    spent = (
        before.failures + (before.outcome in FAILURES),
        before.losses + (before.outcome is OutcomeKind.LOST),
    )
    most = case.job.policies.max_retries
    if after.attempt != before.attempt + 1:
        return f"follows attempt {before.attempt}"
    if (after.failures, after.losses) == (0, 0) != spent and _fresh_budget(case, after):
        return ""
    if (after.failures, after.losses) != spent:
        return f"begins with {after.failures} failures and {after.losses} losses, not with {spent[0]} and {spent[1]}"
    if before.outcome in FAILURES and before.version == case.facts.version and after.failures > most:
        return f"is beyond its budget of {most} retries"
    return f"is beyond {MAX_LOSSES} losses" if after.losses >= MAX_LOSSES else ""


def _fresh_budget(case: Case, after: EndedRun | Live) -> bool:
    """Return True if a person asked for a retry, or a reset gave another budget."""
    if case.job.policies.when_exhausted is WhenExhausted.WAIT_RESET or case.facts.version > 1:
        return True
    asked = {data.get("number") for event, data in case.changes if event.kind == "job.retried"}
    return after.number in asked or after.queued_at < case.past.known_since


def overlaps(case: Case) -> Found:
    """Check G1: since the last change by a person, no more runs at once than the policy allows."""
    placed = _placed_since(case, max(case.facts.updated_at, case.clock_until))
    runs = [each for each in case.ended if each.started_at is not None and each.number in placed]
    under_way: list[datetime] = []
    most = case.most_at_once
    for start, end, run in sorted(_spans(runs), key=lambda span: span[:2]):
        while under_way and under_way[0] <= start:
            heappop(under_way)
        heappush(under_way, end)
        if len(under_way) > most:
            text = f"{_name(run)} started at {start}, while {len(under_way) - 1} of {most} ran"
            yield FlawKind.OVERLAP, text
            return


def _placed_since(case: Case, since: datetime) -> set[int]:
    """Find the numbers of occurrences that got their slot after an instant; a retry keeps the first attempt's slot."""
    return {row.number for row in case.rows if row.attempt == 0 and row.queued_at >= since}


def _spans(runs: Iterable[EndedRun]) -> Iterator[tuple[datetime, datetime, EndedRun]]:
    """Yield the time in which each run surely ran: clocks of two machines differ."""
    for run in runs:
        if run.started_at is not None and run.finished_at - CLOCKS_AGREE * 2 > run.started_at:
            yield run.started_at, run.finished_at - CLOCKS_AGREE * 2, run


def places(case: Case) -> Found:
    """Check G1: each live occurrence has a place of its own, and each waiting one can still start."""
    taken = Counter(live.slot for live in case.occurrences)
    if any(count > 1 for count in taken.values()) or None in taken:
        yield FlawKind.OVERLAP, f"two live executions share a slot: {sorted(map(str, taken.elements()))}"
    slots = [slot for slot in taken if slot is not None and slot != WAITING_PLACE]
    untouched = {live.number for live in case.occurrences} <= _placed_since(case, case.facts.updated_at)
    if untouched and len(slots) > case.most_at_once:
        yield FlawKind.OVERLAP, f"{len(slots)} slots are taken of {case.most_at_once}"
    for live in case.occurrences:
        if live.waits_for is WaitsFor.TURN and not slots:
            yield FlawKind.WAITS, f"the execution {live.id} waits for its turn, but nothing of its job runs"
        if live.waits_for is WaitsFor.RESUME and case.facts.paused_at is None:
            yield FlawKind.WAITS, f"the execution {live.id} waits for the resume of a job that is not paused"
        if (case.gone or case.facts.ended_at is not None) and not live.running:
            yield FlawKind.WAITS, f"the execution {live.id} is queued, but its job is over"


def workers(case: Case) -> Found:
    """Find running executions under an unknown worker."""
    for live in case.lives:
        if case.past.workers is not None and live.worker_id is not None and live.worker_id not in case.past.workers:
            yield (
                FlawKind.UNKNOWN_WORKER,
                f"the execution {live.id} is held by {live.worker_id}, which is no worker",
            )


def arguments(case: Case) -> Found:
    """Check that the arguments of live executions can be read."""
    for live in case.lives:
        if live.args is not None and not is_object(live.args):
            yield FlawKind.UNREADABLE, f"the args of the execution {live.id} are no JSON object"


def is_object(text: str) -> bool:
    """Return True if a text is a JSON object."""
    try:
        return isinstance(decode(text), dict)
    except Invalid:
        return False


def _name(row: EndedRun | Live) -> str:
    step = f" step {row.step}" if row.step else ""
    return f"n{row.number}-rc{row.attempt}{step}"


# -- Due times: each has one record, and a job's last and next due time follow from its records and schedule

FEW = 100  # due times that are walked through rather than counted


@hot_dataclass(frozen=True, slots=True)
class Record:
    """Due times with one record: an occurrence, or a range of skipped ones."""

    first: datetime
    last: datetime
    count: int
    name: str


def records_after(case: Case, floor: datetime) -> list[Record]:
    """List the records of due times after an instant, in order; of a skip that began before, the rest."""
    rows = [Record(due, due, 1, f"n{number}") for number, due in case.due_by_number.items() if due > floor]
    skips = [_record_of(skip) for skip in case.skips if skip.last_due_at > floor]
    return sorted([*rows, *skips], key=attrgetter("first"))


def _record_of(skip: Skip) -> Record:
    return Record(skip.first_due_at, skip.last_due_at, skip.count, f"a skip ({skip.reason.value})")


def twice(case: Case) -> Found:
    """Check that no due time has two records."""
    if not case.has_grid:
        return
    edited_by_wrong_clock = case.clock_until if case.facts.version > 1 else FIRST_INSTANT
    records = records_after(case, max(case.scheduled_since, case.past.pruned.until, edited_by_wrong_clock))
    for earlier, later in pairwise(records):
        if later.first <= earlier.last:
            yield FlawKind.TWICE, f"{later.first} has two records: {earlier.name} and {later.name}"
            return


def left_over(case: Case) -> Found:
    """Check that the recomputed due times up to the last one dealt with are exactly the recorded ones."""
    last = case.facts.last_due_at
    if not case.has_grid or last is None or last <= case.floor or case.clock_is_back:
        return
    records = records_after(case, case.floor)
    if _complete(case, records, last):
        return
    found: dict[FlawKind, str] = {}
    for kind, text in _compared(case, records, last):
        found.setdefault(kind, text)
    yield from found.items()


def _complete(case: Case, records: list[Record], until: datetime) -> bool:
    """Return True if the records are exactly the due times in order. One step each; it does not find the flaw."""
    due_times = _after(case, case.floor)
    for record in records:
        if record.first <= case.floor:  # counted where it began, perhaps under another schedule
            due_times = _after(case, record.last)
            continue
        if record.count > FEW and _counts(case, record) and next(due_times, None) == record.first:
            due_times = _after(case, record.last)
        elif record.count > FEW or not _follows(record, list(islice(due_times, record.count))):
            return False
    return bool(records) and records[-1].last == until


def _follows(record: Record, due: list[datetime]) -> bool:
    """Return True if the next due times are those of a record."""
    return len(due) == record.count and due[0] == record.first and due[-1] == record.last


def _after(case: Case, after: datetime) -> Iterator[datetime]:
    return due_times(case.job.definition, case.facts, after)


def _counts(case: Case, record: Record) -> bool:
    """Return True if a range begins and ends with a due time and has its stated number of them."""
    definition, facts, before = case.job.definition, case.facts, record.first - INSTANT
    return (
        next_due(definition, facts, before) == record.first
        and newest_due(definition, facts, record.last, before) == record.last
        and count_due(definition, facts, before, record.last) == record.count
    )


def _compared(case: Case, records: list[Record], until: datetime) -> Found:
    """Name each due time without a record, and each record that is not of a due time."""
    dealt = case.floor
    for record in records:
        if record.first > case.floor:
            yield from _unrecorded(case, dealt, record.first - INSTANT)
            if not _counts(case, record):
                yield (
                    FlawKind.OFF_GRID,
                    f"{record.name} is not of due times: {record.count} from {record.first} to {record.last}",
                )
        dealt = max(dealt, record.last)
    yield from _unrecorded(case, dealt, until)


def _unrecorded(case: Case, dealt: datetime, until: datetime) -> Found:
    count = count_due(case.job.definition, case.facts, dealt, until)
    if count:
        first = next_due(case.job.definition, case.facts, dealt)
        many = "a due time has" if count == 1 else f"{count} due times have"
        yield FlawKind.NO_RECORD, f"{many} no record, the first is {first}"


def last_due(case: Case) -> Found:
    """Check that `last_due_at` is the greatest due time that has a record."""
    if not case.recurring or case.clock_is_back:
        return
    floor = max(case.floor, case.facts.created_at)
    greatest = max([*case.due_by_number.values(), *(skip.last_due_at for skip in case.skips)], default=floor)
    last = case.facts.last_due_at
    if max(last or floor, floor) != max(greatest, floor):
        text = "nothing" if last is None else f"{last}"
        yield (
            FlawKind.LAST_DUE,
            f"its last due time is {text}, but its records reach to {max(greatest, floor)}",
        )


def next_time(case: Case) -> Found:
    """Check that `next_due_at` is the time that `next_time.name_next` sets."""
    computed = case.facts.computed_at
    ahead = computed is not None and computed > case.now + FIRED_AHEAD
    if case.clock_is_back or case.other_zones or ahead:
        return
    there, wanted = case.facts.next_due_at, set(_next_times(case))
    if there not in wanted:
        expected = " or ".join(sorted(_shown(each) for each in wanted))
        yield FlawKind.NEXT_DUE, f"its next due time is {_shown(there)}, not {expected}"
    elif there is None and case.open and not case.lives and not _may_wait(case):
        yield FlawKind.NEXT_DUE, "nothing is queued and nothing comes next, but it has not ended"
    elif case.facts.ended_as is not None and case.facts.ended_at is None and not (case.gone or case.lives):
        yield FlawKind.NEXT_DUE, "its schedule is over and nothing is queued, but it has not ended"


def _shown(due: datetime | None) -> str:
    return "nothing" if due is None else str(due)


def _may_wait(case: Case) -> bool:
    """Return True if a job without a next due time may wait for a person, or for another job."""
    schedule = case.job.schedule
    return not case.recurring and not isinstance(schedule, Once)


def _next_times(case: Case) -> Iterator[datetime | None]:
    """Yield every value that the next due time may have."""
    facts, schedule = case.facts, case.job.schedule
    if not case.open:
        yield None
    elif facts.reset_at is not None:
        yield from _after_reset(case)
    elif isinstance(schedule, Once):
        yield None if (facts.last_due_at or FIRST_INSTANT) >= schedule.at else schedule.at
        yield from _named_later(case)
    elif case.recurring:
        yield from _by_schedule(case)
    else:
        yield None


def _after_reset(case: Case) -> Iterator[datetime | None]:
    facts = case.facts
    if facts.reset_at is not None:
        yield max(facts.reset_at, facts.computed_at or facts.reset_at)
    if case.lives:
        yield None
    if case.set_back:
        yield facts.next_due_at  # a clock that was set back leaves it where it is


def _by_schedule(case: Case) -> Iterator[datetime | None]:
    """Yield the time after the last due time dealt with; after an edit of the end, the time after the edit."""
    definition, facts = case.job.definition, case.facts
    dealt = max(facts.anchor, facts.last_due_at or facts.anchor)
    if facts.first_run_waits:
        yield facts.next_due_at
    yield next_due(definition, facts, dealt)
    yield next_due(definition, facts, max(dealt, facts.computed_at or dealt))
    yield from _named_later(case)
    yield from _looked_at_again(case)


def _looked_at_again(case: Case) -> Iterator[datetime]:
    """Yield due times that a settle may name with `catch_up: all`: the one after its own, though later ones have
    records."""
    facts, definition, due = case.facts, case.job.definition, case.facts.next_due_at
    if due is None or facts.last_due_at is None or due > facts.last_due_at:
        return
    edited = facts.computed_at is None or facts.updated_at >= facts.computed_at
    if definition.policies.catch_up is CatchUp.ALL or edited:
        yield from (each for each in [next_due(definition, facts, due - INSTANT)] if each == due)


def _named_later(case: Case) -> Iterator[None]:
    """Yield None where a settle will name the next time: with a fixed delay, while the job catches up, or after an
    edit of either."""
    facts, policies = case.facts, case.job.policies
    edited = facts.computed_at is None or facts.updated_at >= facts.computed_at
    if case.lives and (case.fixed_delay or policies.catch_up is CatchUp.ALL or edited):
        yield None


# -- Every check of the auditor, in one list

CHECKS: Final[tuple[Callable[[Case], Found], ...]] = (
    identities, counters, numbers, times, budgets, overlaps,
    places, workers, arguments, twice, left_over, last_due,
    next_time,
)  # fmt: skip
READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "schedule": schedule_of,
    "policies": policies_of,
    "tags": decode,
}  # each other column is a JSON object


def audit(
    job: Job,
    lives: Sequence[Live],
    executions: Sequence[EndedRun],
    skips: Sequence[Skip],
    past: Past,
    now: datetime,
) -> list[AuditFlaw]:
    """List the contradictions in the rows of one job, as one snapshot has them."""
    case = Case(job, lives, executions, skips, past, now)
    return [AuditFlaw(kind, job.id, sentence) for check in CHECKS for kind, sentence in check(case)]


def unreadable(job_id: UUID, texts: Mapping[str, str]) -> list[AuditFlaw]:
    """List the columns of a job that cannot be read, by name."""
    return [
        AuditFlaw(FlawKind.UNREADABLE, job_id, f"its {name} cannot be read: {text[:60]!r}")
        for name, text in texts.items()
        if not _is_readable(name, text)
    ]


def _is_readable(name: str, text: str) -> bool:
    if name not in READERS:
        return is_object(text)
    try:
        READERS[name](text)
    except NOT_READABLE:
        return False
    return True
