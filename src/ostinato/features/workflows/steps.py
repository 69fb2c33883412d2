"""The steps of workflows: the graph of a run is read when it begins, and cached for all its later steps."""

from typing import Final

from ostinato.core.errors import Invalid
from ostinato.core.model import Job, Json, Live
from ostinato.core.policy import Policies
from ostinato.features.workflows.rows import Workflows, find
from ostinato.features.workflows.rules import Origin, RunState
from ostinato.features.workflows.rules.run import WorkflowOfRun, time_out
from ostinato.features.workflows.rules.state import begun_anew
from ostinato.store.database import Tx
from ostinato.store.store import Store


class _WorkflowSteps:
    """The rules of the task `workflow`, for the store (store/locking.py)."""

    time_out = staticmethod(time_out)
    anew = staticmethod(begun_anew)

    def __init__(self, store: Store) -> None:
        self._graphs = store.part(Workflows).graphs

    def plan(self, tx: Tx, job: Job, run: Live, live: Live) -> WorkflowOfRun:
        """Return the workflow of a run: that of its state, or the newest one for a first attempt."""
        state = RunState.read(run.checkpoint)
        if live.step:
            return WorkflowOfRun() if state is None else WorkflowOfRun(self._graphs.of(tx, state), state)
        try:
            origin = Origin.read(job.definition.args if run.args is None else run.args)
        except Invalid as error:
            return WorkflowOfRun(flaw=str(error))
        if state is not None:  # an earlier attempt has begun: with the same graph
            return WorkflowOfRun(self._graphs.of(tx, state), state, origin)
        return self._first(tx, origin)

    def _first(self, tx: Tx, origin: Origin) -> WorkflowOfRun:
        row = find(tx, origin.workflow)
        if row is None:
            return WorkflowOfRun(flaw=f"No matching trigger: there is no workflow {origin.workflow!r}.")
        if not row.active:
            return WorkflowOfRun(flaw=f"No matching trigger: the workflow {row.name!r} is not active.")
        state = RunState(row.id, row.version, row.name)
        return WorkflowOfRun(self._graphs.of(tx, state), state, origin)

    def policies(self, tx: Tx, checkpoint: Json | None, step: Live) -> Policies | None:
        """Return the policies of a step's node; None for a run that has not begun."""
        state = RunState.read(checkpoint)
        if state is None:
            return None
        node = self._graphs.of(tx, state).step.get(step.step)
        return Policies(max_retries=0) if node is None else Policies(timeout=node.timeout, max_retries=node.retries)


STEPS: Final = {"workflow": _WorkflowSteps}
