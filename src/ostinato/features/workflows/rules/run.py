"""The rules of a workflow's run: which steps it queues, and what it comes to (core/lifecycle/draft.py).

A run begins with the steps that come after no other. The settle of a step queues the steps after it, or skips them. A
failed step blocks only the steps after it: other branches go on. The next attempt of a run continues with the steps
that have not completed, by the graph that the run began with; completed steps do not run again.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from ostinato.core import policy
from ostinato.core.errors import Invalid
from ostinato.core.lifecycle import draft as steps
from ostinato.core.lifecycle.draft import Draft, Over
from ostinato.core.model import MAX_LOSSES, Execution, Live
from ostinato.core.outcome import (
    Cancelled,
    Completed,
    Deferred,
    Error,
    Failed,
    Interrupted,
    Lost,
    Outcome,
    TimedOut,
)
from ostinato.core.payload import decode, encode
from ostinato.core.policy import Backoff
from ostinato.features.workflows.rules import SCHEDULE, Graph, GraphStep, Origin, RunState, StepState, matching_trigger
from ostinato.features.workflows.rules.condition import PAYLOAD, TRIGGER, Unresolved, look_up, resolved
from ostinato.features.workflows.rules.state import attempts_of

PASSED: Final = (StepState.COMPLETED, StepState.SKIPPED)


@dataclass(frozen=True, slots=True)
class WorkflowOfRun:
    """The workflow of a run, as far as a rule needs it; `flaw` says why it cannot begin."""

    graph: Graph | None = None
    state: RunState | None = None
    origin: Origin | None = None
    flaw: str = ""

    def begin(self, draft: Draft, run: Live) -> Over:
        """Begin the run; one without a workflow or a trigger fails."""
        if self.graph is None or self.state is None or self.origin is None:
            return run, Failed(Error("NoMatchingTrigger", self.flaw))
        return _begin(draft, run, self.graph, self.state, self.origin)

    def step_ended(self, draft: Draft, run: Live, step: Live, outcome: Outcome) -> Over:
        """Settle a step, and its run if it was the last."""
        return _step_ended(draft, run, step, outcome, self.graph)


# -- begin of a run


def _begin(draft: Draft, run: Live, graph: Graph, state: RunState, origin: Origin) -> Over:
    """Begin a run that its worker has released: queue its first steps, or those that an earlier attempt has left."""
    try:
        trigger = matching_trigger(graph, state.name, origin.event, origin.trigger)
    except Invalid as error:
        return run, Failed(Error("NoMatchingTrigger", str(error)))
    if not state.states:
        state.attempts = dict(attempts_of(run.checkpoint))
        _remember_trigger(draft, run, graph, state, origin)
    done = [name for name, each in state.states.items() if each is StepState.COMPLETED]
    state.states, state.errors, state.timed_out = dict.fromkeys(done, StepState.COMPLETED), {}, False
    for each in graph.triggers:
        state.states[each.id] = StepState.COMPLETED if each.id == trigger else StepState.SKIPPED
    return _go_on(draft, draft.wait_for_steps(run, state.write()), graph, state)


def _remember_trigger(draft: Draft, run: Live, graph: Graph, state: RunState, origin: Origin) -> None:
    about: dict[str, Any] = {
        "kind": origin.event, "payload": origin.payload, "timestamp": draft.now.isoformat(),
        "due_at": run.due_at.isoformat(),
    }  # fmt: skip
    if origin.event == SCHEDULE:
        name = draft.definition.name or draft.definition.key or draft.definition.task
        about |= {
            "scheduled_job_id": str(draft.id), "scheduled_job_name": name, "repeat_number": draft.facts.repeats_done,
        }  # fmt: skip
    roots = {PAYLOAD: origin.payload, TRIGGER: about} | {each.id: about for each in graph.triggers}
    for root, value in roots.items():
        _remember(state, graph, root, value)


def _remember(state: RunState, graph: Graph, root: str, value: Any, skip: int = 0) -> None:
    """Store the values that other nodes refer to, as far as they exist."""
    for reference in graph.references.get(root, ()):
        try:
            state.values[reference.text] = look_up(value, reference.path[skip:])
        except Unresolved:
            state.values.pop(reference.text, None)


# -- one step


def _step_ended(draft: Draft, run: Live, step: Live, outcome: Outcome, graph: Graph | None) -> Over:
    state = RunState.read(run.checkpoint)
    if isinstance(outcome, Interrupted | Deferred) and not _stops(draft, run, state):
        steps.hand_back(draft, step, outcome)
        return None
    ended = steps.end(draft, step, outcome)
    if state is None or graph is None or step.step not in graph.step:
        return None
    state.attempts[step.step] = step.attempt
    _judge(draft, run, graph.step[step.step], state, ended, outcome)
    if isinstance(outcome, Completed):
        value = None if outcome.result is None else decode(outcome.result, "result")
        _remember(state, graph, step.step, value, skip=1)
    return _go_on(draft, run, graph, state)


def _judge(draft: Draft, run: Live, step: GraphStep, state: RunState, ended: Execution, outcome: Outcome) -> None:
    """Return the state of an ended step; None if its next attempt was queued."""
    stops = _stops(draft, run, state)
    match outcome:
        case Completed():
            state.states[step.id] = StepState.COMPLETED
        case Failed() | TimedOut() | Lost() if not stops and _again(draft, step, ended, outcome):
            pass
        case Failed() | TimedOut() | Lost() if not stops:
            state.states[step.id] = StepState.FAILED
            state.errors[step.id] = f"{ended.error_kind}: {ended.error}"[:500]
        case _:
            state.states[step.id] = StepState.CANCELLED
            if isinstance(outcome, Cancelled) and not stops:  # a step cancelled by hand cancels its run
                draft.stop_steps(run)


def _again(draft: Draft, step: GraphStep, ended: Execution, outcome: Outcome) -> bool:
    """Queue the next attempt of a step, if it has one."""
    if isinstance(outcome, Lost):
        losses = ended.losses + 1
        if draft.definition.policies.on_lost.ends or losses >= MAX_LOSSES:
            return False
        wait = policy.after_loss(_backoff(step), losses, draft.chance.fraction)
        draft.queue_step_again(ended, draft.now + wait, ended.failures, losses)
        return True
    failures = ended.failures + 1
    wanted, final = (outcome.retry_in, outcome.final) if isinstance(outcome, Failed) else (None, False)
    if final or failures > step.retries:
        return False
    wait = policy.after_failure(_backoff(step), failures, wanted, draft.chance.fraction)
    draft.queue_step_again(ended, draft.now + wait, failures, ended.losses)
    return True


def _backoff(step: GraphStep) -> Backoff:
    return Backoff() if step.retry_delay is None else Backoff(base=step.retry_delay)


# -- end of a run


def time_out(draft: Draft, run: Live) -> Over:
    """Time out a run: ask its steps to stop; the run is over when they have."""
    state = RunState.read(run.checkpoint)
    if state is None or state.timed_out or run.cancel_asked_at is not None:
        return None
    state.timed_out = True
    draft.alter(replace(run, checkpoint=state.write()))
    for step in draft.steps_of(run):
        if step.worker_id is not None:
            draft.ask_to_stop(step)
        else:
            draft.call_off(step, "")
            state.states[step.step] = StepState.CANCELLED
            state.attempts[step.step] = step.attempt
    return None if draft.steps_of(run) else _end(draft, run, state)


def _stops(draft: Draft, run: Live, state: RunState | None) -> bool:
    """Return True if nothing more is queued for a run."""
    run = draft.lives.get(run.id, run)
    return draft.gone or run.cancel_asked_at is not None or (state is not None and state.timed_out)


def _go_on(draft: Draft, run: Live, graph: Graph, state: RunState) -> Over:
    """Queue the steps that may begin, skip those that may not; the run is over when none of its steps is live."""
    if not _stops(draft, run, state):
        for step in graph.steps:
            _consider(draft, run, graph, step, state)
    if draft.steps_of(run):
        draft.alter(replace(draft.lives.get(run.id, run), checkpoint=state.write()))
        return None
    return _end(draft, run, state)


def _consider(draft: Draft, run: Live, graph: Graph, step: GraphStep, state: RunState) -> None:
    """Queue or skip one step. Steps come in order, so a skip is known to the steps after it."""
    if step.id in state.states or any(live.step == step.id for live in draft.steps_of(run)):
        return
    before = [state.states.get(name) for name in step.after]
    if any(each is None for each in before):
        return
    if any(each not in PASSED for each in before):
        state.states[step.id] = StepState.BLOCKED
    elif before and StepState.COMPLETED not in before:
        _skip(graph, step, state)
    else:
        _begin_step(draft, run, graph, step, state)


def _skip(graph: Graph, step: GraphStep, state: RunState) -> None:
    """Skip a step; its value is null."""
    state.states[step.id] = StepState.SKIPPED
    for reference in graph.references.get(step.id, ()):
        state.values[reference.text] = None


def _begin_step(draft: Draft, run: Live, graph: Graph, step: GraphStep, state: RunState) -> None:
    attempt = state.attempts.get(step.id, -1) + 1
    try:
        if step.when is not None and not step.when.of(state.values):
            _skip(graph, step, state)
            return
        args = encode(resolved(dict(step.args), state.values))
    except Invalid as error:
        _cannot_begin(draft, run, step, state, attempt, error)
        return
    state.attempts[step.id] = attempt
    draft.queue_step(run, step.id, step.task, args, attempt)


def _cannot_begin(draft: Draft, run: Live, step: GraphStep, state: RunState, attempt: int, error: Invalid) -> None:
    """Fail a step that cannot begin, since its args cannot be made."""
    live = draft.queue_step(run, step.id, step.task, None, attempt)
    kind = type(error).__name__
    draft.end(live, Failed(Error(kind, str(error))))
    state.attempts[step.id], state.states[step.id] = attempt, StepState.FAILED
    state.errors[step.id] = f"{kind}: {error}"[:500]


def _end(draft: Draft, run: Live, state: RunState) -> Over:
    """End the run by the states of its steps."""
    run = replace(draft.lives[run.id], checkpoint=state.write())
    draft.alter(run)
    failed = [name for name, each in state.states.items() if each is StepState.FAILED]
    if run.cancel_asked_at is not None or draft.gone:
        return run, Cancelled(run.cancel_by)
    if state.timed_out:
        began = run.started_at or draft.now
        return run, TimedOut(draft.definition.policies.timeout or draft.now - began)
    if failed:
        reasons = "; ".join(f"{name}: {state.errors.get(name, '')}" for name in failed)
        what = f"The step {reasons}" if len(failed) == 1 else f"The steps {reasons}"
        return run, Failed(Error("StepFailed", what))
    if any(each is StepState.CANCELLED for each in state.states.values()):
        return run, Cancelled(run.cancel_by)
    return run, Completed(encode(state.states, "result"))
