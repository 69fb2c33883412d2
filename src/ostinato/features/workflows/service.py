"""Commands and questions about workflows and their runs."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from ostinato.core.auth import check_no_credentials
from ostinato.core.errors import Conflict, Invalid, NotFound, UnknownTask
from ostinato.core.model import Definition, Execution, Live, Status
from ostinato.core.payload import decode, encode, is_storable
from ostinato.core.policy import Policies
from ostinato.core.schedule import Once, Schedule
from ostinato.core.task_schema import check_by_schema
from ostinato.features.workflows.rows import NewWorkflow, WorkflowRow, Workflows
from ostinato.features.workflows.rules import (
    WORKFLOW_TASK,
    Graph,
    GraphStep,
    Origin,
    RunState,
    StepState,
    matching_trigger,
    read_graph,
)
from ostinato.features.workflows.rules.condition import REF, references_in
from ostinato.features.workflows.rules.graph import place_of
from ostinato.features.workflows.rules.state import LARGEST_ID, MANUAL, answers
from ostinato.service import JobFilter, JobView, Service
from ostinato.service.declarations import DECLARATION, settled
from ostinato.service.views import ExecutionView
from ostinato.store.store import Store

# -- Progress of a workflow's run: its nodes and their states

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


# -- Commands and questions about workflows and their runs

WorkflowRef = int | str
LONGEST_NAME: Final = 200
LONGEST_DESCRIPTION: Final = 10_000
PAGE_LIMIT: Final = 250
STANDING: Final = frozenset(Status) - {Status.COMPLETED, Status.FAILED, Status.CANCELLED}
NO_RETRIES: Final = Policies(max_retries=0)


@dataclass(frozen=True, slots=True)
class WorkflowView:
    """A workflow, at its newest version."""

    id: int
    name: str
    description: str
    version: int
    active: bool
    nodes: Sequence[Mapping[str, Any]]
    declared: bool
    created_at: datetime
    updated_at: datetime

    @property
    def tasks(self) -> frozenset[str]:
        """The names of the tasks of its steps."""
        return frozenset(node["task"] for node in self.nodes if "task" in node)

    @classmethod
    def of(cls, row: WorkflowRow) -> "WorkflowView":
        return cls(
            row.id, row.name, row.description, row.version, row.active, decode(row.nodes, "nodes"),
            row.declared is not None, row.created_at, row.updated_at,
        )  # fmt: skip


def tag_of(workflow: int) -> str:
    """Return the tag of a workflow's jobs."""
    return f"workflow:{workflow}"


class WorkflowService:
    """Commands and questions about the workflows of all apps, which share their names."""

    def __init__(self, service: Service) -> None:
        self._store, self._clock, self._jobs = service.store, service.clock, service.jobs
        self._rows = service.store.part(Workflows)
        self._known, self._app = service.known, service.app

    # -- questions

    def get(self, ref: WorkflowRef) -> WorkflowView:
        """Return one workflow, by its id or its name."""
        return WorkflowView.of(self._find(ref))

    def list(self, limit: int = PAGE_LIMIT, after: int = 0) -> list[WorkflowView]:
        """List the workflows, in the order of their creation."""
        if not 1 <= limit <= PAGE_LIMIT:
            raise Invalid(f"limit must be from 1 to {PAGE_LIMIT}, not {limit}.")
        return [WorkflowView.of(row) for row in self._rows.page(limit, after)]

    # -- changes

    def create(
        self,
        name: str,
        nodes: object,
        *,
        description: str = "",
        active: bool = True,
        declared: str | None = None,
        by: str = "",
        allow_unknown: bool = False,
    ) -> WorkflowView:
        """Create a workflow. Conflict if the name is taken; Invalid, with the place, for an error in its nodes."""
        wanted = self._checked(name, nodes, description, active, allow_unknown, declared)
        self._check_args(nodes)
        return WorkflowView.of(self._rows.add(wanted, self._clock.now(), by))

    def check(self, name: str, nodes: object, description: str = "", *, allow_unknown: bool = False) -> None:
        """Raise the error that `create` would raise; nothing is stored."""
        self._checked(name, nodes, description, True, allow_unknown)
        self._check_args(nodes)

    def put(
        self,
        ref: WorkflowRef,
        *,
        name: str | None = None,
        nodes: object = None,
        description: str | None = None,
        active: bool | None = None,
        declared: str | None = None,
        by: str = "",
        allow_unknown: bool = False,
    ) -> WorkflowView:
        """Change the given fields. Changed nodes make a new version: runs in progress keep theirs."""
        row = self._find(ref)
        wanted = self._checked(
            row.name if name is None else name,
            decode(row.nodes, "nodes") if nodes is None else nodes,
            row.description if description is None else description,
            row.active if active is None else active,
            allow_unknown or nodes is None,
            row.declared if declared is None else declared,
        )
        if nodes is not None:
            self._check_args(nodes)
        if _same(row, wanted):
            return WorkflowView.of(row)
        return WorkflowView.of(self._rows.put(row.id, wanted, self._clock.now(), by))

    def declare(self, name: str, nodes: object, description: str = "") -> WorkflowView:
        """Apply a declaration. It changes a workflow only when it differs from the last one, so edits by an operator
        stay."""
        return settled(lambda: self._declare(name, nodes, description))

    def _declare(self, name: str, nodes: object, description: str) -> WorkflowView:
        said = hashlib.sha256(encode([nodes, description], "nodes").encode()).hexdigest()[:32]
        row = self._rows.get(name)
        if row is None:
            return self.create(name, nodes, description=description, declared=said, by=DECLARATION)
        if row.declared == said:
            return WorkflowView.of(row)
        return self.put(row.id, nodes=nodes, description=description, declared=said, by=DECLARATION)

    def delete(self, ref: WorkflowRef, *, by: str = "") -> None:
        """Delete a workflow. Its runs in progress go on; later runs by its schedules fail with the reason."""
        if not self._rows.delete(self._find(ref).id, self._clock.now(), by):
            raise NotFound(f"There is no workflow {ref}.")

    # -- start

    def definition(
        self,
        ref: WorkflowRef,
        schedule: Schedule,
        *,
        payload: Any = None,
        trigger: str | None = None,
        event: str = "schedule",
        policies: Policies = NO_RETRIES,
        name: str = "",
        owner: str = "",
    ) -> Definition:
        """Return the definition of a job that runs a workflow; Invalid if no trigger matches."""
        row = self._find(ref)
        matching_trigger(self._graph(row), row.name, event, trigger)
        args = Origin(row.id, trigger, payload, event).args()
        return Definition(
            WORKFLOW_TASK, schedule, encode(args), policies, self._app, name=name or row.name, owner=owner,
            tags=(tag_of(row.id),),
        )  # fmt: skip

    def run(self, ref: WorkflowRef, payload: Any = None, *, trigger: str | None = None, by: str = "") -> JobView:
        """Start a workflow now, by a job that runs once."""
        row = self._find(ref)
        if not row.active:
            raise Conflict(f"The workflow {row.name!r} is not active: activate it first.")
        wanted = self.definition(row.id, self._now(), payload=payload, trigger=trigger, event=MANUAL)
        return self._jobs.make(wanted, by=by, allow_unknown=True)[0]

    def dispatch_event(self, kind: str, data: Any = None, *, by: str = "") -> Sequence[JobView]:
        """Start all active workflows with a trigger node for this kind of event; return their jobs."""
        if not kind or not is_storable(kind):
            raise Invalid("The kind of an event is text, such as 'order'.")
        encode({} if data is None else data, "data")
        wanted = [
            self.definition(row.id, self._now(), payload=data, trigger=trigger.id, event=kind)
            for row in self._all()
            if row.active
            for trigger in self._graph(row).triggers
            if answers(trigger, kind)
        ]
        ids = self._jobs.create(wanted, by=by, allow_unknown=True)
        return [self._jobs.get(job_id) for job_id in ids]

    # -- runs

    def steps(self, execution_id: UUID) -> RunView:
        """Return a run with its steps and their states, by the id of its execution, or of one of its steps."""
        return run_view(self._store, execution_id)

    def runs(self, ref: WorkflowRef, limit: int = 50) -> Sequence[JobView]:
        """List the jobs of a workflow, the newest first: schedules, and one for each start by hand or by an event."""
        row = self._find(ref)
        found = list(self._jobs.search(JobFilter(tag=tag_of(row.id)), limit=limit).items)
        found += (job for job in self._standing(row) if all(job.id != each.id for each in found))
        return sorted(found, key=lambda job: job.facts.created_at, reverse=True)[:limit]

    def _standing(self, row: WorkflowRow) -> Sequence[JobView]:
        """List jobs that have not ended and name it only in their args, as those of `@app.workflow(every=…)`."""
        asked = JobFilter(STANDING, task=WORKFLOW_TASK)
        named = (row.id, str(row.id), row.name)
        return [
            job
            for job in self._jobs.search(asked, limit=PAGE_LIMIT).items
            if tag_of(row.id) not in job.definition.tags and job.args.get("workflow") in named
        ]

    # -- internals

    def _now(self) -> Once:
        return Once(self._clock.now())

    def _all(self) -> Sequence[WorkflowRow]:
        found: list[WorkflowRow] = []
        while page := self._rows.page(PAGE_LIMIT, found[-1].id if found else 0):
            found += page
        return found

    def _graph(self, row: WorkflowRow) -> Graph:
        return self._rows.version(row.id, row.version)

    def _find(self, ref: WorkflowRef) -> WorkflowRow:
        row = None
        if isinstance(ref, int) or ref.isdecimal():
            row = self._rows.get(int(ref)) if int(ref) <= LARGEST_ID else None
        elif is_storable(ref):
            row = self._rows.get(ref)
        if row is None:
            raise NotFound(f"There is no workflow {ref!r}.")
        return row

    def _checked(
        self,
        name: str,
        nodes: object,
        description: str,
        active: bool,
        allow_unknown: bool,
        declared: str | None = None,
    ) -> NewWorkflow:
        if not name.strip() or not name.isprintable() or name != name.strip():
            raise Invalid("name: a workflow needs a name.")
        if len(name) > LONGEST_NAME or name.isdecimal():
            raise Invalid(f"name: at most {LONGEST_NAME} characters, and not a number, which would be an id.")
        if len(description) > LONGEST_DESCRIPTION or not is_storable(name + description):
            raise Invalid(f"description: at most {LONGEST_DESCRIPTION:,} characters that a database can keep.")
        graph = read_graph(nodes)
        if not allow_unknown:
            self._require_tasks(graph, nodes)
        return NewWorkflow(name, encode(nodes, "nodes"), description, active, declared)

    def _require_tasks(self, graph: Graph, nodes: Any) -> None:
        for step in graph.steps:
            try:
                self._known.require({step.task})
            except UnknownTask as error:
                raise UnknownTask(f"{place_of(nodes, step.id)}.task: {error}") from None

    def _check_args(self, nodes: Any) -> None:
        """Refuse args that do not fit the user's tasks, and credentials in args of built-in ones.

        The value behind a reference is not known yet.
        """
        steps = read_graph(nodes).steps
        described = self._known.described({step.task for step in steps})
        for step in steps:
            if self._known.is_built_in(step.task):
                check_no_credentials(step.args, f"{place_of(nodes, step.id)}.args", self._known.features.holders)
            schema = self._known.schema(step.task, described)
            if schema is not None and REF not in step.args:
                unsettled = [name for name, value in step.args.items() if any(references_in(value, ""))]
                check_by_schema(schema, step.args, unsettled, f"{place_of(nodes, step.id)}.args")


def _same(row: WorkflowRow, wanted: NewWorkflow) -> bool:
    return (row.name, row.nodes, row.description, row.active, row.declared) == (
        wanted.name, wanted.nodes, wanted.description, wanted.active, wanted.declared,
    )  # fmt: skip
