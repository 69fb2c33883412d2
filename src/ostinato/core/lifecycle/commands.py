"""What people may ask of a job. A state that does not allow it is a Conflict, and nothing changes."""

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from ostinato.core.errors import Conflict
from ostinato.core.lifecycle import birth, settling, timeline
from ostinato.core.lifecycle.draft import Draft
from ostinato.core.lifecycle.status import status
from ostinato.core.model import (
    WAITING_PLACE,
    Asked,
    Change,
    Definition,
    Execution,
    Facts,
    Job,
    Json,
    Live,
    Luck,
    SkipReason,
    Status,
    WaitsFor,
)
from ostinato.core.outcome import Cancelled, Interrupted
from ostinato.core.schedule import Once, to_json

ALIVE = (Status.PENDING, Status.SCHEDULED, Status.QUEUED, Status.RUNNING)
ENDED = (Status.COMPLETED, Status.FAILED)


def pause(job: Job, lives: Sequence[Live], now: datetime, luck: Luck, by: str = "") -> Change:
    """From here on nothing starts. What runs may finish; what waits is withdrawn, or waits for the resume."""
    _require(job, lives, "pause", ALIVE, unpaused=True)
    draft = Draft(job, lives, now, luck, by)
    draft.facts.paused_at = draft.facts.updated_at = now
    draft.facts.next_due_at = None
    for live in [live for live in lives if not live.running]:
        if draft.recurring:
            draft.withdraw(live, SkipReason.PAUSED)
        else:
            draft.alter(replace(live, waits_for=WaitsFor.RESUME))
    draft.tell("job.paused")
    return draft.change()


def resume(job: Job, lives: Sequence[Live], now: datetime, luck: Luck, by: str = "") -> Change:
    """Go on, without catching up: the due times in between are one skip."""
    _require_paused(job, lives)
    draft = Draft(job, lives, now, luck, by)
    facts = draft.facts
    facts.paused_at, facts.updated_at = None, now
    for live in lives:
        if live.waits_for is WaitsFor.RESUME:
            draft.alter(replace(live, waits_for=WaitsFor.TIME if live.run_at > now else None))
    if draft.recurring:
        _resume_schedule(draft)
    elif isinstance(draft.definition.schedule, Once) and facts.last_due_at is None:
        birth.begin(draft)
    draft.tell("job.resumed", anchor=facts.anchor, next_due_at=facts.next_due_at)
    draft.end_if_over()
    return draft.change()


def cancel(job: Job, lives: Sequence[Live], now: datetime, luck: Luck, by: str = "") -> Change:
    """Stop for good, whatever a run in progress comes to."""
    _require(job, lives, "cancel", (*ALIVE, Status.PAUSED))
    draft = Draft(job, lives, now, luck, by)
    draft.facts.cancelled_at = now
    _stop_everything(draft)
    draft.tell("job.cancelled")
    return draft.change()


def delete(job: Job, lives: Sequence[Live], now: datetime, luck: Luck, by: str = "") -> Change:
    """Gone from every answer at once; the sweeper removes the rows."""
    draft = Draft(job, lives, now, luck, by)
    draft.facts.deleted_at = now
    _stop_everything(draft)
    draft.tell("job.deleted", key=job.definition.key, task=job.definition.task)
    return draft.change()


def edit(
    job: Job, lives: Sequence[Live], wanted: Definition, now: datetime, luck: Luck, by: str = ""
) -> Change:
    """Change the definition. A run in progress is not touched; a new schedule counts from now."""
    if job.facts.cancelled_at is not None:
        raise Conflict("This job is cancelled; a cancelled job cannot be edited.")
    draft = Draft(job, lives, now, luck, by)
    facts = draft.facts
    moved = _moved(job.definition, wanted)
    if moved and draft.open:
        _close_old_schedule(draft)
    before, draft.definition = job.definition, wanted
    facts.version += 1
    facts.updated_at = now
    if moved:
        facts.anchor = timeline.anchor_for(wanted, now)
    if moved and draft.open:
        facts.reset_at = None
        _begin_new_schedule(draft)
    for live in list(draft.lives.values()):
        if not live.running:
            draft.alter(replace(live, queue=wanted.queue, priority=wanted.priority, task=wanted.task))
    old, new = _differences(before, wanted)
    draft.tell("job.edited", version=facts.version, anchor=facts.anchor, before=old, after=new)
    return draft.change()


def retry(
    job: Job, lives: Sequence[Live], last: Execution | None, now: datetime, luck: Luck, by: str = ""
) -> Change:
    """Go on with the failed occurrence: the same number, the next attempt, a fresh budget, at once."""
    _require(job, lives, "retry", (Status.FAILED,))
    if last is None:
        raise Conflict("This job has no execution to retry; run it, or restart it.")
    draft = Draft(job, lives, now, luck, by)
    facts = draft.facts
    _reopen(facts, now)
    facts.ended_as = facts.period_start = None
    facts.period_failures = 0
    draft.queue_again(last, now, slot=0, failures=0, losses=0)
    if draft.recurring:
        draft.skip_between(SkipReason.FAILED, facts.last_due_at or facts.anchor, now)
        draft.name_next(now)
    draft.tell("job.retried", number=last.number, attempt=last.attempt + 1)
    return draft.change()


def run(
    job: Job, lives: Sequence[Live], args: Json | None, now: datetime, luck: Luck, by: str = ""
) -> Change:
    """An extra occurrence, now; the schedule does not move."""
    if job.facts.cancelled_at is not None:
        raise Conflict("This job is cancelled; a cancelled job cannot be run.")
    draft = Draft(job, lives, now, luck, by)
    if draft.facts.ended_at is not None:
        _reopen(draft.facts, now)
    waiting = [live for live in draft.occurrences() if not live.running and live.slot != WAITING_PLACE]
    if waiting and args is None:
        _start_now(draft, waiting[0])
    else:
        _start_another(draft, waiting, args)
    draft.tell("job.run", other_args=args is not None)
    return draft.change()


def restart(job: Job, lives: Sequence[Live], now: datetime, luck: Luck, by: str = "") -> Change:
    """Begin as new: repeats and spent budget at 0. The counters go on."""
    _require(job, lives, "restart", ENDED)
    draft = Draft(job, lives, now, luck, by)
    facts = draft.facts
    _reopen(facts, now)
    facts.ended_as = facts.period_start = facts.last_due_at = None
    facts.repeats_done = facts.period_failures = 0
    facts.anchor = timeline.anchor_for(draft.definition, now)
    birth.begin(draft)
    draft.tell("job.restarted", anchor=facts.anchor, next_due_at=facts.next_due_at)
    draft.end_if_over()
    return draft.change()


def cancel_execution(
    job: Job, lives: Sequence[Live], live: Live, now: datetime, luck: Luck, by: str = "", force: bool = False
) -> Change:
    """Stop one execution. `force` ends the record of one that cannot be stopped; its late result is refused."""
    if live.running and not force:
        draft = Draft(job, lives, now, luck, by)
        draft.ask_to_stop(live)
        draft.tell("execution.cancel_asked", live.id)
        return draft.change()
    note = "ended by hand; its thread may still run" if live.running else ""
    change = settling.settle(job, lives, live, Cancelled(by, note), now, luck, by)
    return _told(change, lives, now, luck, by, "execution.cancelled", live, force=force)


def release(job: Job, lives: Sequence[Live], live: Live, now: datetime, luck: Luck, by: str = "") -> Change:
    """Take a running execution from its worker and queue it again; the worker's late result is refused."""
    if live.worker_id is None:
        raise Conflict("This execution is not running; only a running one can be released.")
    change = settling.settle(job, lives, live, Interrupted(), now, luck, by)
    return _told(change, lives, now, luck, by, "execution.released", live, worker=live.worker_id)


# -- within


def _require(
    job: Job, lives: Sequence[Live], verb: str, allowed: Collection[Status], unpaused: bool = False
) -> None:
    current = status(job, lives)
    if current not in allowed or (unpaused and job.facts.paused_at is not None):
        shown = Status.PAUSED if unpaused and job.facts.paused_at is not None else current
        raise Conflict(f"This job is {shown}; only a job that is {_either(allowed)} can be {_past(verb)}.")


def _require_paused(job: Job, lives: Sequence[Live]) -> None:
    facts = job.facts
    if facts.paused_at is None or facts.ended_at is not None or facts.cancelled_at is not None:
        raise Conflict(f"This job is {status(job, lives)}; only a paused job can be resumed.")


def _either(allowed: Collection[Status]) -> str:
    words = [state.value for state in allowed]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _past(verb: str) -> str:
    return {"pause": "paused", "cancel": "cancelled", "retry": "retried", "restart": "restarted"}[verb]


def _resume_schedule(draft: Draft) -> None:
    facts = draft.facts
    dealt = facts.last_due_at or facts.anchor
    if not draft.definition.policies.fixed_delay:
        draft.skip_between(SkipReason.PAUSED, dealt, draft.now)
    facts.anchor = timeline.anchor_for(draft.definition, draft.now)
    if facts.reset_at is not None and facts.reset_at > draft.now:
        facts.next_due_at, facts.computed_at = facts.reset_at, draft.now
        return
    facts.reset_at = None
    draft.name_next(draft.now)


def _stop_everything(draft: Draft) -> None:
    draft.facts.updated_at = draft.now
    draft.facts.next_due_at = draft.facts.reset_at = None
    for live in list(draft.lives.values()):
        if live.worker_id is not None:
            draft.ask_to_stop(live)
        else:
            draft.withdraw(live, None)


def _moved(before: Definition, wanted: Definition) -> bool:
    """Whether the due times have changed."""
    old, new = before.policies, wanted.policies
    return (before.schedule, old.start_at, old.end_at, old.fixed_delay) != (
        wanted.schedule,
        new.start_at,
        new.end_at,
        new.fixed_delay,
    )


def _close_old_schedule(draft: Draft) -> None:
    """What the old schedule had due by now gets its record; what it had fired ahead is taken back."""
    for live in [live for live in draft.lives.values() if not live.running and live.due_at > draft.now]:
        draft.withdraw(live, SkipReason.MISSED)
    due = draft.facts.next_due_at
    if due is not None and due <= draft.now and draft.recurring and draft.facts.reset_at is None:
        draft.skip_between(SkipReason.MISSED, due - timeline.INSTANT, draft.now)


def _begin_new_schedule(draft: Draft) -> None:
    """Never at once, but for a time that has passed already."""
    schedule = draft.definition.schedule
    if isinstance(schedule, Once) and schedule.at <= draft.now and not draft.lives:
        birth.start(draft, schedule.at)
    else:
        draft.name_next(draft.now)
        draft.end_if_over()


def _differences(before: Definition, wanted: Definition) -> tuple[dict[str, object], dict[str, object]]:
    """Before and after, of the fields that changed."""
    fields = [name for name in Definition.__slots__ if getattr(before, name) != getattr(wanted, name)]
    return _shown(before, fields), _shown(wanted, fields)


def _shown(definition: Definition, fields: Sequence[str]) -> dict[str, object]:
    shown = {name: getattr(definition, name) for name in fields}
    if "schedule" in shown:
        shown["schedule"] = to_json(definition.schedule)
    if "policies" in shown:
        shown["policies"] = {n: str(getattr(definition.policies, n)) for n in definition.policies.__slots__}
    return json.loads(json.dumps(shown, default=str))  # type: ignore[no-any-return]


def _reopen(facts: Facts, now: datetime) -> None:
    facts.ended_at, facts.updated_at = None, now


def _start_now(draft: Draft, live: Live) -> None:
    waits_for = None if live.waits_for in (WaitsFor.TIME, WaitsFor.RESUME) else live.waits_for
    draft.alter(replace(live, run_at=min(live.run_at, draft.now), waits_for=waits_for))


def _start_another(draft: Draft, waiting: Sequence[Live], args: Json | None) -> None:
    """With other args what only waits gives way; beside what runs there is a free slot or the waiting place."""
    for live in waiting[:1]:
        draft.withdraw(live, SkipReason.OVERLAP)
    slot = draft.free_slot()
    if slot is None:
        if draft.waiting() is not None:
            raise Conflict(
                "This job is running and another run is waiting already; try again when one has ended."
            )
        slot = WAITING_PLACE
    draft.queue_first(draft.now, Asked.HAND, slot, args)


def _told(
    change: Change,
    lives: Sequence[Live],
    now: datetime,
    luck: Luck,
    by: str,
    kind: str,
    live: Live,
    **data: object,
) -> Change:
    draft = Draft(change.job, lives, now, luck, by)
    draft.tell(kind, live.id, **data)
    return replace(change, events=change.events + draft.change().events)
