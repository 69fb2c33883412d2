"""The graphs of workflows for runs: read when a run begins, cached for all its later steps.

A version never changes, so a parsed graph stays valid.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from ostinato.core.errors import Invalid, NotFound
from ostinato.core.lifecycle import WorkflowOfRun
from ostinato.core.model import Definition, Job, Live, WaitsFor
from ostinato.core.policy import Policies
from ostinato.core.workflow import Graph, Origin, RunState, read_graph
from ostinato.store import rows
from ostinato.store.adapt import from_micros, to_uuid
from ostinato.store.database import Tx

KNOWN: Final = 1000  # parsed graphs
# The shortest timeout: for a step that begins when its run is out of time.
MOMENT: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class WorkflowRow:
    """A workflow at its newest version."""

    id: int
    name: str
    description: str
    version: int
    nodes: str
    inactive_at: datetime | None
    declared: str | None
    created_at: datetime
    updated_at: datetime

    @property
    def active(self) -> bool:
        return self.inactive_at is None


WORKFLOW: Final = rows.Shape(WorkflowRow)


def find(tx: Tx, ref: int | str) -> WorkflowRow | None:
    """Find a workflow by its id or its name."""
    if isinstance(ref, int):
        row = tx.row("workflow_by_id", number=ref)
    else:
        row = tx.row("workflow_by_name", name=ref)
    return None if row is None else WORKFLOW.of(row)


class Graphs:
    """Parsed graphs, by workflow and version."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int], Graph] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, tx: Tx, workflow: int, version: int) -> Graph:
        """Return the graph that a run began with."""
        with self._lock:
            known = self._known.get((workflow, version))
        if known is not None:
            return known
        row = tx.row("workflow_version", number=workflow, workflow_version=version)
        if row is None:
            raise NotFound(f"There is no version {version} of the workflow {workflow}.")
        return self.keep(workflow, version, row[0])

    def keep(self, workflow: int, version: int, nodes: str) -> Graph:
        graph = read_graph(json.loads(nodes))
        with self._lock:
            self._known[workflow, version] = graph
            if len(self._known) > KNOWN:
                self._known.popitem(last=False)
        return graph

    def flow_of(self, tx: Tx, job: Job, lives: Sequence[Live], live: Live) -> WorkflowOfRun:
        """Return the workflow of an execution: a step, or a run that begins."""
        if not live.step:
            return self._of_beginning(tx, job, live)
        run = next((each for each in lives if each.number == live.number and not each.step), None)
        state = None if run is None else RunState.read(run.checkpoint)
        return WorkflowOfRun() if state is None else WorkflowOfRun(self.of(tx, state.workflow, state.version), state)

    def _of_beginning(self, tx: Tx, job: Job, live: Live) -> WorkflowOfRun:
        try:
            origin = Origin.read(job.definition.args if live.args is None else live.args)
        except Invalid as error:
            return WorkflowOfRun(flaw=str(error))
        state = RunState.read(live.checkpoint)
        if state is not None:  # an earlier attempt has begun: with the same graph
            return WorkflowOfRun(self.of(tx, state.workflow, state.version), state, origin)
        row = find(tx, origin.workflow)
        if row is None:
            return WorkflowOfRun(flaw=f"No matching trigger: there is no workflow {origin.workflow!r}.")
        if not row.active:
            return WorkflowOfRun(flaw=f"No matching trigger: the workflow {row.name!r} is not active.")
        return WorkflowOfRun(self.of(tx, row.id, row.version), RunState(row.id, row.version, row.name), origin)

    def definitions_of(
        self, tx: Tx, steps: Sequence[Live], found: dict[UUID, Definition], now: datetime
    ) -> dict[UUID, Definition]:
        """Return the definitions of steps by id: the job's definition with the policies of the step's node."""
        runs = {
            (to_uuid(job_id), number): (from_micros(started), checkpoint)
            for job_id, number, started, checkpoint in tx.rows("runs_of", ids=list({s.job_id for s in steps}))
        }
        made: dict[UUID, Definition] = {}
        for step in steps:
            run = runs.get((step.job_id, step.number))
            state = None if run is None else RunState.read(run[1])
            if run is None or state is None or step.job_id not in found:
                continue
            node = self.of(tx, state.workflow, state.version).step.get(step.step)
            definition = found[step.job_id]
            timeouts = [] if node is None or node.timeout is None else [node.timeout]
            if definition.policies.timeout is not None:
                timeouts.append(max(run[0] + definition.policies.timeout - now, MOMENT))
            policies = Policies(timeout=min(timeouts, default=None), max_retries=0 if node is None else node.retries)
            made[step.id] = replace(definition, task=step.task, args=step.args or "{}", policies=policies)
        return made


def waits_for_steps(live: Live) -> bool:
    return live.waits_for is WaitsFor.STEPS
