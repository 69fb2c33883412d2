"""Records: executions, live rows, numbers and counters agree with each other."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from heapq import heappop, heappush
from itertools import pairwise

from ostinato.core.audit.case import Case, EndedRun, FlawKind, Found
from ostinato.core.duration import CLOCKS_AGREE
from ostinato.core.errors import Invalid
from ostinato.core.model import MAX_LOSSES, WAITING_PLACE, Live, SkipReason, WaitsFor
from ostinato.core.outcome import OutcomeKind
from ostinato.core.payload import decode
from ostinato.core.policy import WhenExhausted

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
