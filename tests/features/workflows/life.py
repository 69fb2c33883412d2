"""The life of a job that runs a workflow, in memory: as tests/core/life.py, with the graph at hand."""

from __future__ import annotations

import json
from dataclasses import replace

from ostinato.core import lifecycle
from ostinato.core.model import Live, WaitsFor
from ostinato.core.outcome import Begun, Completed, Outcome, OutcomeKind
from ostinato.features.workflows.rules import Origin, RunState, read_graph
from ostinato.features.workflows.rules.run import WorkflowOfRun, time_out
from ostinato.features.workflows.rules.state import begun_anew
from tests.build import NOW
from tests.core.life import Life


def step(name, *after, **fields):
    return {"id": name, "task": name, "after": list(after), **fields}


class FlowLife(Life):
    """Runs are begun and steps are settled by the graph that the run began with."""

    def __init__(self, nodes, **given):
        self.versions = [read_graph(nodes)]
        self.flaw = ""
        super().__init__(**{"task": "workflow", "args": json.dumps({"workflow": 1})} | given)

    def settle(self, outcome: Outcome = Completed(), live: Live | None = None) -> None:  # noqa: B008
        live = self.lives[live.id] if live else next(each for each in self.rows if each.worker_id)
        plan = self._plan(live)
        self._save(lifecycle.settle(self.job, self.rows, live, outcome, self.now, self.chance, plan=plan))

    def _plan(self, live: Live) -> WorkflowOfRun:
        run = self.run if live.step else live
        state = RunState.read(run.checkpoint)
        if self.flaw and not live.step:
            return WorkflowOfRun(flaw=self.flaw)
        if state is None:
            state = RunState(1, len(self.versions), "flow")
        origin = Origin.read(live.args or self.job.definition.args) if not live.step else None
        return WorkflowOfRun(self.versions[state.version - 1], state, origin)

    @property
    def run(self) -> Live:
        (found,) = [live for live in self.rows if live.waits_for is WaitsFor.STEPS]
        return found

    @property
    def steps(self) -> dict[str, Live]:
        return {live.step: live for live in self.rows if live.step}

    def begin(self) -> None:
        """A worker claims the run, and lets go of it."""
        (live,) = [each for each in self.startable if not each.step]
        self.settle(Begun(), self.start(live))

    def does(self, name: str, outcome: Outcome | object = None) -> None:
        """A worker runs a step; what is no outcome is its result."""
        known = isinstance(outcome, Outcome)
        told = outcome if known else Completed(None if outcome is None else json.dumps(outcome))
        live = self.steps[name]
        self.settle(told, live if live.worker_id else self.start(live))

    def time_out(self) -> None:
        self._save(lifecycle.time_out_run(self.job, self.rows, self.run, self.now, self.chance, time_out))

    def retry(self, from_start: bool = False) -> None:
        last = self.last_failed()
        if from_start:
            last = replace(last, checkpoint=begun_anew(last.checkpoint))
        self._save(lifecycle.retry(self.job, self.rows, last, self.now, self.chance, "me"))

    def last_failed(self):
        whole = [each for each in self.executions if not each.step]
        steps, self.executions = self.executions, whole
        try:
            return super().last_failed()
        finally:
            self.executions = steps

    @property
    def record(self) -> list[tuple[str, int, str]]:
        """Of the steps: name, attempt, result."""
        return [(each.step, each.attempt, each.outcome.value) for each in self.executions if each.step]

    @property
    def runs(self) -> list[OutcomeKind]:
        return [each.outcome for each in self.executions if not each.step]

    def _check_rows(self, change) -> None:
        """A step that cannot begin ends without ever having been live."""
        never = tuple(each for each in change.ended if each.step and each.started_at is None)
        super()._check_rows(replace(change, ended=tuple(e for e in change.ended if e not in never)))


LINE = [step("a"), step("b", "a"), step("c", "b")]
DIAMOND = [step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c")]


def begun(nodes=LINE, **given):
    """A run that has just begun, with no retries but those of its steps."""
    life = FlowLife(nodes, **{"at": NOW, "max_retries": 0} | given)
    life.begin()
    return life
