"""The rules of steps, by the task of their run: a feature has them (its steps.py), and the store asks them.

The mechanism is in core/lifecycle/steps.py. A process that lacks the rules of a run leaves it and its steps to others.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, Protocol
from uuid import UUID

from ostinato.core.lifecycle.draft import Draft
from ostinato.core.lifecycle.steps import Over, RunPlan
from ostinato.core.model import Definition, Execution, Job, Json, Live, WaitsFor
from ostinato.core.policy import Policies
from ostinato.feature import Features
from ostinato.store.adapt import from_micros, to_uuid
from ostinato.store.database import Tx

# The shortest timeout: for a step that begins when its run is out of time.
MOMENT: Final = timedelta(milliseconds=1)


class StepRules(Protocol):
    """The rules of a task whose runs have steps: `plan` and `policies` read, the others are pure."""

    def plan(self, tx: Tx, job: Job, run: Live, live: Live) -> RunPlan:
        """Return the rules of a run; `live` is the run itself if it begins, else one of its steps."""
        ...

    def policies(self, tx: Tx, checkpoint: Json | None, step: Live) -> Policies | None:
        """Return the timeout and the retries of a step, by the checkpoint of its run; None if that has none."""
        ...

    def time_out(self, draft: Draft, run: Live) -> Over:
        """Ask the steps of a run to stop; the run is over when they have."""
        ...

    def anew(self, checkpoint: Json | None) -> Json | None:
        """Return the checkpoint of a run that begins again from the start."""
        ...


class Steps:
    """The rules of steps in this process."""

    def __init__(self, features: Features, part: Callable[[Any], Any]) -> None:
        self._features, self._part = features, part

    def of(self, task: str) -> StepRules | None:
        """Return the rules of a task whose runs have steps; None if no feature here has them."""
        kind = self._features.steps(task)
        rules: StepRules | None = None if kind is None else self._part(kind)
        return rules

    def missing(self, lives: Sequence[Live], live: Live) -> str | None:
        """Return the task of the run if its rules are missing here."""
        run = _run_of(lives, live)
        return run.task if run is not None and self.of(run.task) is None else None

    def plan(self, tx: Tx, job: Job, lives: Sequence[Live], live: Live) -> RunPlan | None:
        """Return the rules of a run that begins, or of the run of a step; None if that is over."""
        run = _run_of(lives, live)
        rules = None if run is None else self.of(run.task)
        return None if run is None or rules is None else rules.plan(tx, job, run, live)

    def anew(self, last: Execution) -> Json | None:
        """Return the checkpoint of the next attempt if that begins again from the start."""
        rules = self.of(last.task)
        return None if rules is None else rules.anew(last.checkpoint)

    def definitions(
        self, tx: Tx, steps: Sequence[Live], found: dict[UUID, Definition], now: datetime
    ) -> dict[UUID, Definition | None]:
        """Return the definitions of steps by id: the job's with the policies of the step, within the time of its run.

        A step whose rules are missing here has None.
        """
        runs = {
            (to_uuid(job_id), number): (task, from_micros(began), checkpoint)
            for job_id, number, task, began, checkpoint in tx.rows("runs_of", ids=list({s.job_id for s in steps}))
        }
        made: dict[UUID, Definition | None] = {}
        for step in steps:
            if (run := runs.get((step.job_id, step.number))) is None or step.job_id not in found:
                continue
            task, began, checkpoint = run
            rules, definition = self.of(task), found[step.job_id]
            if rules is None:
                made[step.id] = None
            elif (own := rules.policies(tx, checkpoint, step)) is not None:
                policies = _within(own, definition.policies.timeout, began, now)
                made[step.id] = replace(definition, task=step.task, args=step.args or "{}", policies=policies)
        return made


def _run_of(lives: Sequence[Live], live: Live) -> Live | None:
    """Return the run that a step belongs to; of a run, itself."""
    if not live.step:
        return live
    return next((each for each in lives if each.number == live.number and each.waits_for is WaitsFor.STEPS), None)


def _within(policies: Policies, timeout: timedelta | None, began: datetime, now: datetime) -> Policies:
    """Return the policies of a step with a timeout that ends with its run's."""
    if timeout is None:
        return policies
    left = max(began + timeout - now, MOMENT)
    return replace(policies, timeout=left if policies.timeout is None else min(left, policies.timeout))
