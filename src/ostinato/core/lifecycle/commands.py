"""Commands of people to a job: its creation, and all later ones. A status that does not allow one raises Conflict."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from ostinato.core.access import Role
from ostinato.core.checks import check_run_args
from ostinato.core.errors import Conflict, NotFound
from ostinato.core.lifecycle import next_time, settling
from ostinato.core.lifecycle.draft import Draft
from ostinato.core.lifecycle.due_times import anchor_from, first_anchor, newest_due
from ostinato.core.lifecycle.status import status
from ostinato.core.model import (
    RUN_SLOT,
    WAITING_PLACE,
    AskedBy,
    Chance,
    Change,
    Definition,
    Execution,
    Facts,
    Job,
    Json,
    Live,
    SkipReason,
    Status,
    WaitsFor,
)
from ostinato.core.outcome import Cancelled, Interrupted
from ostinato.core.schedule import Once, to_json
from ostinato.core.trace import visible

# -- Creation of a job


def create(
    job_id: UUID, definition: Definition, now: datetime, chance: Chance, by: str = "", bounded: bool = False
) -> Change:
    """Create a job. A job that is due at once gets its live row now; with a bounded queue its first run waits."""
    facts = Facts(created_at=now, updated_at=now, anchor=first_anchor(definition, now))
    draft = Draft(Job(job_id, definition, facts), (), now, chance, by)
    next_time.begin(draft, bounded)
    next_time.end_if_over(draft)
    if by or not draft.run_once:  # a job from `enqueue` has its own row, and names no other caller
        draft.tell("job.created", schedule=to_json(definition.schedule), anchor=draft.facts.anchor)
    return draft.change()


# -- Commands of people to a job. A status that does not allow one raises Conflict, and nothing changes

ALIVE = (Status.PENDING, Status.SCHEDULED, Status.QUEUED, Status.RUNNING)
ENDED = (Status.COMPLETED, Status.FAILED)
FORCED = "ended by hand; its thread may still run"


def pause(job: Job, lives: Sequence[Live], now: datetime, chance: Chance, by: str = "") -> Change:
    """Pause a job: nothing starts any more. Running attempts may finish; waiting ones are withdrawn, or wait for the
    resume."""
    _require(job, "paused", Status.PAUSED if job.facts.paused_at else status(job, lives), ALIVE)
    draft = Draft(job, lives, now, chance, by)
    draft.facts.paused_at = draft.facts.updated_at = now
    next_time.skip_first(draft, SkipReason.PAUSED)
    draft.facts.next_due_at = None
    for live in [live for live in draft.occurrences() if not live.running]:
        if draft.recurring:
            draft.withdraw(live, SkipReason.PAUSED)
        else:
            draft.alter(replace(live, waits_for=WaitsFor.RESUME))
    draft.tell("job.paused")
    next_time.end_if_over(draft)
    return draft.change()


def resume(job: Job, lives: Sequence[Live], now: datetime, chance: Chance, by: str = "") -> Change:
    """Resume a job, without catching up: the due times in between are one skip."""
    state = Status.PAUSED if job.facts.paused_at and not job.facts.cancelled_at else status(job, lives)
    _require(job, "resumed", state, (Status.PAUSED,))
    draft = Draft(job, lives, now, chance, by)
    facts = draft.facts
    facts.paused_at, facts.updated_at = None, now
    for live in lives:
        if live.waits_for is WaitsFor.RESUME:
            draft.requeue(live)
    if draft.open and draft.recurring:
        _resume_schedule(draft)
    elif draft.open and draft.run_once and not draft.its_time_has_come:
        next_time.begin(draft)
    draft.tell("job.resumed", anchor=facts.anchor, next_due_at=facts.next_due_at)
    next_time.end_if_over(draft)
    return draft.change()


def cancel(job: Job, lives: Sequence[Live], now: datetime, chance: Chance, by: str = "") -> Change:
    """Cancel a job for good, whatever the outcome of a run in progress."""
    _require(job, "cancelled", status(job, lives), (*ALIVE, Status.PAUSED))
    draft = Draft(job, lives, now, chance, by)
    _stop_everything(draft)
    draft.facts.cancelled_at = now
    draft.tell("job.cancelled")
    return draft.change()


def delete(job: Job, lives: Sequence[Live], now: datetime, chance: Chance, by: str = "") -> Change:
    """Delete a job: no answer shows it any more, and the sweeper removes its rows."""
    _require_there(job)
    draft = Draft(job, lives, now, chance, by)
    _stop_everything(draft)
    draft.facts.deleted_at = now
    draft.tell("job.deleted", key=job.definition.key, task=job.definition.task)
    return draft.change()


def edit(job: Job, lives: Sequence[Live], wanted: Definition, now: datetime, chance: Chance, by: str = "") -> Change:
    """Change the definition. A run in progress is not touched; a new schedule counts from now."""
    _require_uncancelled(job, "edited")
    draft = Draft(job, lives, now, chance, by)
    facts, before = draft.facts, job.definition
    if _grid(before) != _grid(wanted):
        first_run_waits = facts.first_run_waits
        _close_old_schedule(draft)
        draft.definition = wanted
        facts.anchor = anchor_from(wanted, now)
        _begin_new_schedule(draft, first_run_waits)
    elif before.policies.end_at != wanted.policies.end_at:
        if wanted.policies.end_at is not None and wanted.policies.end_at < now:
            next_time.close_gap(draft)  # else due times after the new end would have no record
        backlog = newest_due(before, facts, now, draft.dealt_until) is not None
        draft.definition = wanted
        _go_on_with_new_end(draft, draft.goes_on_from if backlog else max(now, draft.goes_on_from))
    draft.definition = wanted
    facts.version += 1
    facts.updated_at = now
    for live in [live for live in draft.occurrences() if not live.running]:
        _follow(draft, live)
    old, new = _differences(before, wanted)
    draft.tell("job.edited", version=facts.version, anchor=facts.anchor, before=old, after=new)
    return draft.change()


def retry(
    job: Job,
    lives: Sequence[Live],
    last: Execution | None,
    now: datetime,
    chance: Chance,
    by: str = "",
) -> Change:
    """Retry the failed occurrence at once: the same number, the next attempt, a fresh budget.

    `last` is the last attempt of the newest failed occurrence; for a job that recurs, of the newest one from the
    schedule. The next attempt goes on from its checkpoint: a run with steps, with those that have not completed.
    """
    _require(job, "retried", status(job, lives), (Status.FAILED,))
    if last is None:
        raise Conflict("This job has no execution to retry; run it, or restart it.")
    draft = Draft(job, lives, now, chance, by)
    facts = draft.facts
    _reopen(facts, now)
    facts.ended_as = facts.period_start = None
    facts.period_failures = 0
    draft.queue_again(last, now, RUN_SLOT, failures=0, losses=0)
    next_time.skip_gap(draft, SkipReason.FAILED)
    next_time.name_next(draft, now)
    draft.tell("job.retried", number=last.number, attempt=last.attempt + 1)
    return draft.change()


def run(
    job: Job,
    lives: Sequence[Live],
    args: Json | None,
    now: datetime,
    chance: Chance,
    by: str = "",
    role: Role = Role.ADMIN,
) -> Change:
    """Make an extra occurrence, now; the schedule does not move. Forbidden if the role may not set these args."""
    _require_uncancelled(job, "run")
    if args is not None:
        check_run_args(job.definition, args, role)
    draft = Draft(job, lives, now, chance, by)
    _reopen(draft.facts, now)
    others = [live for live in draft.occurrences() if live.slot != WAITING_PLACE]
    waiting = [live for live in others if not live.running and live.due_at <= now]
    if any(live.running for live in others) or not waiting:
        _start_another(draft, args)
    elif args is None:
        _start_now(draft, waiting[0])
    else:
        draft.withdraw(waiting[0], SkipReason.OVERLAP)
        _start_another(draft, args)
    draft.tell("job.run", other_args=args is not None)
    return draft.change()


def restart(job: Job, lives: Sequence[Live], now: datetime, chance: Chance, by: str = "") -> Change:
    """Restart an ended job as new: repeats and spent budget are 0, the counters continue."""
    _require(job, "restarted", status(job, lives), ENDED)
    draft = Draft(job, lives, now, chance, by)
    facts = draft.facts
    _reopen(facts, now)
    facts.ended_as = facts.period_start = None
    facts.repeats_done = facts.period_failures = 0
    facts.anchor = first_anchor(draft.definition, now)
    next_time.begin(draft)
    draft.tell("job.restarted", anchor=facts.anchor, next_due_at=facts.next_due_at)
    next_time.end_if_over(draft)
    return draft.change()


def cancel_execution(
    job: Job,
    lives: Sequence[Live],
    live: Live,
    now: datetime,
    chance: Chance,
    by: str = "",
    force: bool = False,
) -> Change:
    """Stop one execution. `force` ends the record of a run that does not stop; its late result is refused."""
    draft = Draft(job, lives, now, chance, by)
    live = draft.run_of(live) or live if live.step else live
    if live.waits_for is WaitsFor.STEPS:
        _cancel_run(draft, live, force)
    elif live.running and not force:
        draft.ask_to_stop(live)
        draft.tell("execution.cancel_asked", live.id)
    else:
        note = FORCED if live.running else ""
        settling.come_to(draft, live, Cancelled(by, note))
        draft.tell("execution.cancelled", live.id, force=force)
    return draft.change()


def _cancel_run(draft: Draft, run: Live, force: bool) -> None:
    """Cancel a whole run, also by the id of a step. It ends when its steps have stopped."""
    draft.stop(run)
    for step in draft.steps_of(run) if force else ():
        draft.end(step, Cancelled(draft.by, FORCED))
    if force and run.id in draft.lives:
        draft.end(draft.lives[run.id], Cancelled(draft.by, FORCED))
    if run.id in draft.lives:
        draft.tell("execution.cancel_asked", run.id)
    else:
        settling.cancelled(draft)
        draft.tell("execution.cancelled", run.id, force=force)


def release(job: Job, lives: Sequence[Live], live: Live, now: datetime, chance: Chance, by: str = "") -> Change:
    """Take a running execution from its worker and queue it again; the worker's late result is refused."""
    if live.worker_id is None:
        raise Conflict("This execution is not running; only a running one can be released.")
    draft = Draft(job, lives, now, chance, by)
    if live.step:
        _release_step(draft, live)
    else:
        settling.come_to(draft, live, Interrupted())
    draft.tell("execution.released", live.id, worker=live.worker_id)
    return draft.change()


def _release_step(draft: Draft, step: Live) -> None:
    """Queue a step again; of a run that stops, call it off, and with the last step the run."""
    run = draft.run_of(step)
    if run is not None and not draft.gone and run.cancel_asked_at is None:
        draft.hand_back(step, step.run_at)
        return
    draft.call_off(step, "")
    if run is not None and not draft.steps_of(run):
        draft.call_off(run, run.cancel_by)
        settling.cancelled(draft)


# -- checks of the state


def _require(job: Job, done: str, state: Status, allowed: Sequence[Status]) -> None:
    _require_there(job)
    if state not in allowed:
        raise Conflict(f"This job is {state}; only a job that is {_either(allowed)} can be {done}.")


def _require_uncancelled(job: Job, done: str) -> None:
    _require_there(job)
    if job.facts.cancelled_at is not None:
        raise Conflict(f"This job is cancelled; a cancelled job cannot be {done}.")


def _require_there(job: Job) -> None:
    if job.facts.deleted_at is not None:
        raise NotFound("This job has been deleted.")


def _either(allowed: Sequence[Status]) -> str:
    *others, last = [state.value for state in allowed]
    return f"{', '.join(others)} or {last}" if others else last


def _reopen(facts: Facts, now: datetime) -> None:
    facts.ended_at, facts.updated_at = None, now


# -- resume, cancel, delete


def _resume_schedule(draft: Draft) -> None:
    facts = draft.facts
    next_time.skip_gap(draft, SkipReason.PAUSED)
    facts.anchor = anchor_from(draft.definition, draft.now)
    if facts.reset_at is not None and facts.reset_at > draft.now:
        next_time.wait_for_reset(draft)
    else:
        facts.reset_at = None
        next_time.name_next(draft, draft.now)


def _stop_everything(draft: Draft) -> None:
    for live in draft.occurrences():
        if live.running:
            draft.stop(live)
        else:
            draft.withdraw(live, None)
    next_time.close_gap(draft)
    draft.facts.updated_at = draft.now
    draft.facts.next_due_at = draft.facts.reset_at = None


# -- edit


def _grid(definition: Definition) -> tuple[object, ...]:
    """Return the parts of a definition that determine its due times."""
    return definition.schedule, definition.policies.start_at, definition.policies.fixed_delay


def _close_old_schedule(draft: Draft) -> None:
    """Record the old schedule's due times up to now; withdraw those that were fired ahead. A first run that
    waits is left to the new schedule."""
    if draft.facts.first_run_waits:
        draft.facts.next_due_at = None
    for live in [live for live in draft.occurrences() if not live.running and live.asked is AskedBy.SCHEDULE]:
        if live.attempt == 0 and live.due_at > draft.now:
            draft.withdraw(live, None)
    next_time.let_in(draft)
    next_time.close_gap(draft)
    draft.facts.reset_at = None


def _begin_new_schedule(draft: Draft, first_run_waits: bool) -> None:
    """Start the new schedule from now; only an overdue `Once` or a waiting first run is due at once."""
    schedule = draft.definition.schedule
    if draft.open and first_run_waits:
        next_time.begin(draft, bounded=True)
        next_time.end_if_over(draft)
    elif draft.open and isinstance(schedule, Once) and schedule.at <= draft.now:
        next_time.start(draft, schedule.at)
    elif draft.open:
        next_time.name_next(draft, draft.now)
        next_time.end_if_over(draft)


def _go_on_with_new_end(draft: Draft, after: datetime) -> None:
    """Name the next time under another `end_at`; the grid does not move."""
    if draft.open and draft.facts.reset_at is None and not draft.facts.first_run_waits:
        next_time.name_next(draft, after)
        next_time.end_if_over(draft)


def _follow(draft: Draft, live: Live) -> None:
    """Bring a queued row in line with its job; a row that waited for a worker of its task is checked again."""
    wanted = draft.definition
    parked = live.waits_for is WaitsFor.TASK and live.task == wanted.task
    waits_for = live.waits_for if parked or live.waits_for is not WaitsFor.TASK else None
    draft.alter(replace(live, queue=wanted.queue, priority=wanted.priority, task=wanted.task, waits_for=waits_for))


def _differences(before: Definition, wanted: Definition) -> tuple[dict[str, object], dict[str, object]]:
    """Return the changed fields, before and after."""
    fields = [name for name in Definition.__slots__ if getattr(before, name) != getattr(wanted, name)]
    return _shown(before, fields), _shown(wanted, fields)


def _shown(definition: Definition, fields: Sequence[str]) -> dict[str, object]:
    shown = {name: getattr(definition, name) for name in fields}
    if "schedule" in shown:
        shown["schedule"] = to_json(definition.schedule)
    if "metadata" in shown:
        shown["metadata"] = visible(definition.metadata)
    if "policies" in shown:
        shown["policies"] = {n: str(getattr(definition.policies, n)) for n in definition.policies.__slots__}
    return json.loads(json.dumps(shown, default=str))  # type: ignore[no-any-return]


# -- run


def _start_now(draft: Draft, live: Live) -> None:
    waits_for = None if live.waits_for in (WaitsFor.TIME, WaitsFor.RESUME) else live.waits_for
    draft.alter(replace(live, run_at=min(live.run_at, draft.now), waits_for=waits_for))


def _start_another(draft: Draft, args: Json | None) -> None:
    """Queue another occurrence in a free slot, or in the waiting place."""
    place = draft.free_place()
    if place is None:
        raise Conflict("This job is running and another run waits already; try again when one has ended.")
    draft.queue_first(draft.now, AskedBy.HAND, place, args)
