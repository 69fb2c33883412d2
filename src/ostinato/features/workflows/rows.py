"""Workflows as rows: each version of a graph is stored once and never changed, so a parsed graph stays valid.

A run refers to the version that it began with, so neither an edit nor a delete of the workflow affects it. Parsed
versions are cached: each is read once, however many steps use it.
"""

import json
import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from ostinato.core.errors import Conflict, NotFound, StoreUnavailable
from ostinato.core.model import Event, Execution
from ostinato.features.workflows.rules import Graph, RunState, read_graph
from ostinato.store import rows
from ostinato.store.database import Duplicate, Tx
from ostinato.store.store import Store

# -- The graphs of workflows for runs: parsed once, and cached. A version never changes, so a parsed graph stays valid

KNOWN: Final = 1000  # parsed graphs


class _Graphs:
    """Parsed graphs, by workflow and version."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int], Graph] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, tx: Tx, run: RunState) -> Graph:
        """Return the graph that a run began with."""
        return self.version(tx, run.workflow, run.version)

    def version(self, tx: Tx, workflow: int, version: int) -> Graph:
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


# -- Workflows as rows: each version of a graph is stored once and never changed

TRIES: Final = 5  # two processes may race for one id: one of them tries again


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


@dataclass(frozen=True, slots=True)
class NewWorkflow:
    """The wanted definition of a workflow."""

    name: str
    nodes: str
    description: str = ""
    active: bool = True
    declared: str | None = None


class Workflows:
    """Table of workflows."""

    def __init__(self, store: Store) -> None:
        self._database, self._chance = store.database, store.chance
        self.graphs = _Graphs()

    def get(self, ref: int | str) -> WorkflowRow | None:
        with self._database.read() as tx:
            return find(tx, ref)

    def page(self, limit: int, after: int = 0) -> list[WorkflowRow]:
        """Return a page of workflows, in the order of creation."""
        with self._database.read() as tx:
            return [WORKFLOW.of(row) for row in tx.rows("list_workflows", after_number=after, limit=limit)]

    def version(self, workflow: int, version: int) -> Graph:
        with self._database.read() as tx:
            return self.graphs.version(tx, workflow, version)

    def steps_of(self, job_id: UUID, number: int) -> list[Execution]:
        """Return the ended attempts of the steps of a run, the first first."""
        with self._database.read() as tx:
            return [rows.EXECUTION.of(row) for row in tx.rows("steps_of", job=job_id, number=number)]

    def add(self, wanted: NewWorkflow, now: datetime, by: str) -> WorkflowRow:
        """Create a workflow. Raise Conflict if its name is taken."""
        for _ in range(TRIES):
            try:
                return self._add(wanted, now, by)
            except Duplicate:
                if self.get(wanted.name) is not None:
                    raise Conflict(f"There is already a workflow {wanted.name!r}; put it instead.") from None
        raise StoreUnavailable("Other processes keep making workflows; try again.")

    def _add(self, wanted: NewWorkflow, now: datetime, by: str) -> WorkflowRow:
        with self._database.write() as tx:
            ((number,),) = tx.rows("next_workflow_id")
            tx.run(
                "insert_workflow", number=number, name=wanted.name, description=wanted.description,
                inactive_at=None if wanted.active else now, declared=wanted.declared, now=now,
            )  # fmt: skip
            self._write_version(tx, number, 1, wanted, now, by)
            self._tell(tx, "workflow.created", now, by, id=number, name=wanted.name)
            made = find(tx, number)
        assert made is not None
        return made

    def put(self, number: int, wanted: NewWorkflow, now: datetime, by: str) -> WorkflowRow:
        """Change a workflow; other nodes make a new version. Runs in progress keep theirs."""
        try:
            return self._put(number, wanted, now, by)
        except Duplicate:
            raise Conflict(f"There is already a workflow {wanted.name!r}.") from None

    def _put(self, number: int, wanted: NewWorkflow, now: datetime, by: str) -> WorkflowRow:
        with self._database.write() as tx:
            tx.row("lock_workflow", number=number)
            before = find(tx, number)
            if before is None:
                raise NotFound(f"There is no workflow {number}.")
            version = before.version + (before.nodes != wanted.nodes)
            inactive_at = None if wanted.active else before.inactive_at or now
            tx.run(
                "update_workflow", number=number, name=wanted.name, description=wanted.description,
                workflow_version=version, inactive_at=inactive_at, declared=wanted.declared, now=now,
            )  # fmt: skip
            if version != before.version:
                self._write_version(tx, number, version, wanted, now, by)
            self._tell(tx, "workflow.changed", now, by, id=number, name=wanted.name, version=version)
            changed = find(tx, number)
        assert changed is not None
        return changed

    def delete(self, number: int, now: datetime, by: str) -> bool:
        """Delete a workflow; runs in progress continue."""
        with self._database.write() as tx:
            row = find(tx, number)
            if row is None or not tx.run("delete_workflow", number=number, now=now):
                return False
            self._tell(tx, "workflow.deleted", now, by, id=number, name=row.name)
        return True

    def _write_version(self, tx: Tx, number: int, version: int, wanted: NewWorkflow, now: datetime, by: str) -> None:
        tx.run(
            "insert_workflow_version",
            number=number,
            workflow_version=version,
            nodes=wanted.nodes,
            now=now,
            by=by,
        )

    def _tell(self, tx: Tx, kind: str, now: datetime, by: str, **data: Any) -> None:
        event = Event(self._chance.id(now), now, kind, by=by, data=json.dumps(data))
        tx.run("insert_events", [rows.EVENT.row(event)])
