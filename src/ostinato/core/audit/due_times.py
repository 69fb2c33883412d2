"""Due times: each has one record, and a job's last and next due time follow from its records and schedule."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice, pairwise
from operator import attrgetter

from ostinato.core.audit.case import Case, FlawKind, Found
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
from ostinato.core.model import Skip
from ostinato.core.policy import CatchUp
from ostinato.core.schedule import Once

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
            yield from _missing(case, dealt, record.first - INSTANT)
            if not _counts(case, record):
                yield (
                    FlawKind.OFF_GRID,
                    f"{record.name} is not of due times: {record.count} from {record.first} to {record.last}",
                )
        dealt = max(dealt, record.last)
    yield from _missing(case, dealt, until)


def _missing(case: Case, dealt: datetime, until: datetime) -> Found:
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
