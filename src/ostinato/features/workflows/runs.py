"""Progress of a workflow's run: its nodes and their states."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from ostinato.core.errors import Invalid, NotFound
from ostinato.core.model import Execution, Live
from ostinato.features.workflows.rows import Workflows
from ostinato.features.workflows.rules import WORKFLOW_TASK, Graph, GraphStep, Origin, RunState, StepState
from ostinato.service.views import ExecutionView
from ostinato.store.store import Store

WAITING = "waiting"
SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class StepView:
    """A node of a run: waiting, queued, running, completed, failed, cancelled or skipped; and its attempts so far.

    `because` is the reason of a skip.
    """

    id: str
    task: str
    after: tuple[str, ...]
    state: str
    because: str
    attempts: tuple[ExecutionView, ...]

    @property
    def last(self) -> ExecutionView | None:
        """Its newest attempt, if it has begun."""
        return self.attempts[-1] if self.attempts else None


@dataclass(frozen=True, slots=True)
class RunView:
    """A run of a workflow, by the version that it began with."""

    run: ExecutionView
    workflow: int | None  # None: it has not begun, and the workflow was deleted
    name: str
    version: int | None
    trigger: str | None
    steps: tuple[StepView, ...]


def run_view(store: Store, execution_id: UUID) -> RunView:
    """Return a run with its steps, by the id of its execution, or of one of its steps."""
    row = store.history.find(execution_id)
    job = None if row is None else store.jobs.get([row.job_id]).get(row.job_id)
    if row is None or job is None:
        raise NotFound(f"There is no execution {execution_id}.")
    lives = [live for live in job.lives if live.number == row.number]
    if row.step:
        row = _run_of(store, row, lives)
    if row.task != WORKFLOW_TASK:
        raise NotFound("This execution is not the run of a workflow: it has no steps.")
    state = RunState.read(row.checkpoint)
    if state is None:
        return _not_begun(store, row, job.job.definition.args)
    graph = store.part(Workflows).version(state.workflow, state.version)
    rows: list[Execution | Live] = [
        *store.part(Workflows).steps_of(row.job_id, row.number),
        *(s for s in lives if s.step),
    ]
    steps = tuple(_step(step, state, rows, over=isinstance(row, Execution)) for step in graph.steps)
    return RunView(ExecutionView.of(row), state.workflow, state.name, state.version, _trigger(graph, state), steps)


def _run_of(store: Store, step: Execution | Live, lives: Sequence[Live]) -> Execution | Live:
    for live in lives:
        if not live.step:
            return live
    ended = store.traces.attempts(step.job_id, step.number)
    if not ended:
        raise NotFound("The run of this step is not kept any more.")
    return ended[-1]


def _not_begun(store: Store, row: Execution | Live, args: str) -> RunView:
    try:
        found = store.part(Workflows).get(Origin.read(args if row.args is None else row.args).workflow)
    except Invalid:
        found = None
    if found is None:
        return RunView(ExecutionView.of(row), None, "", None, None, ())
    graph = store.part(Workflows).version(found.id, found.version)
    state = RunState(found.id, found.version)
    steps = tuple(_step(step, state, [], over=isinstance(row, Execution)) for step in graph.steps)
    return RunView(ExecutionView.of(row), found.id, found.name, None, None, steps)


def _trigger(graph: Graph, state: RunState) -> str | None:
    fired = (each.id for each in graph.triggers if state.states.get(each.id) is StepState.COMPLETED)
    return next(fired, None)


def _step(step: GraphStep, state: RunState, rows: Sequence[Execution | Live], *, over: bool) -> StepView:
    attempts = tuple(ExecutionView.of(row) for row in rows if row.step == step.id)
    word, because = _state(step, state, attempts, over)
    return StepView(step.id, step.task, step.after, word, because, attempts)


def _state(step: GraphStep, state: RunState, attempts: Sequence[ExecutionView], over: bool) -> tuple[str, str]:
    if attempts and attempts[-1].outcome is None and not over:
        return attempts[-1].status, ""
    match state.states.get(step.id):
        case StepState.BLOCKED:
            return SKIPPED, "a step before it did not complete"
        case StepState.SKIPPED:
            return SKIPPED, "its condition was false, or all before it was skipped"
        case None if attempts and attempts[-1].outcome is not None and (over or attempts[-1].status == "cancelled"):
            return attempts[-1].status, ""
        case None:
            return (SKIPPED, "the run was over before") if over else (WAITING, "")
        case known:
            return known.value, ""
