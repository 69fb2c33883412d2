"""Workflows, as the database keeps them: each version of a graph once, never changed.

A run refers to the version that it began with, so an edit, or the end of a workflow, never touches it. What was parsed
is kept: a version is read once, however many steps run by it.
"""

import json
import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ostinato.core.errors import Conflict, NotFound, StoreUnavailable
from ostinato.core.model import Event, Luck
from ostinato.core.workflow import Graph, read_graph
from ostinato.store import rows
from ostinato.store.database import Database, Duplicate, Tx

TRIES: Final = 5  # two processes that race for one id: one of them looks again
KNOWN: Final = 1000  # parsed graphs


@dataclass(frozen=True, slots=True)
class WorkflowRow:
    """A workflow, at its newest version."""

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


@dataclass(frozen=True, slots=True)
class NewWorkflow:
    """What somebody wants a workflow to be."""

    name: str
    nodes: str
    description: str = ""
    active: bool = True
    declared: str | None = None


WORKFLOW: Final = rows.Shape(WorkflowRow)


class Graphs:
    """Parsed graphs, by workflow and version."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int], Graph] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, tx: Tx, workflow: int, version: int) -> Graph:
        """The graph that a run began with."""
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


def find(tx: Tx, ref: int | str) -> WorkflowRow | None:
    """A workflow by its id or its name."""
    if isinstance(ref, int):
        row = tx.row("workflow_by_id", number=ref)
    else:
        row = tx.row("workflow_by_name", name=ref)
    return None if row is None else WORKFLOW.of(row)


class Workflows:
    """The table of workflows."""

    def __init__(self, database: Database, luck: Luck) -> None:
        self._database, self._luck = database, luck
        self.graphs = Graphs()

    def get(self, ref: int | str) -> WorkflowRow | None:
        with self._database.read() as tx:
            return find(tx, ref)

    def page(self, limit: int, after: int = 0) -> list[WorkflowRow]:
        """In the order in which they were made."""
        with self._database.read() as tx:
            return [WORKFLOW.of(row) for row in tx.rows("list_workflows", after_number=after, limit=limit)]

    def version(self, workflow: int, version: int) -> Graph:
        with self._database.read() as tx:
            return self.graphs.of(tx, workflow, version)

    def add(self, wanted: NewWorkflow, now: datetime, by: str) -> WorkflowRow:
        """Make one. The name must be free: Conflict."""
        for _ in range(TRIES):
            try:
                return self._add(wanted, now, by)
            except Duplicate:
                if self.get(wanted.name) is not None:
                    raise Conflict(f"There is already a workflow {wanted.name!r}; put it instead.") from None
        raise StoreUnavailable("Others keep making workflows; try again.")

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
        """Change one; other nodes are another version. Runs in progress keep theirs."""
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
        """Gone from every answer; runs in progress go on."""
        with self._database.write() as tx:
            row = find(tx, number)
            if row is None or not tx.run("delete_workflow", number=number, now=now):
                return False
            self._tell(tx, "workflow.deleted", now, by, id=number, name=row.name)
        return True

    def _write_version(
        self, tx: Tx, number: int, version: int, wanted: NewWorkflow, now: datetime, by: str
    ) -> None:
        tx.run(
            "insert_workflow_version",
            number=number,
            workflow_version=version,
            nodes=wanted.nodes,
            now=now,
            by=by,
        )

    def _tell(self, tx: Tx, kind: str, now: datetime, by: str, **data: Any) -> None:
        event = Event(self._luck.id(now), now, kind, by=by, data=json.dumps(data))
        tx.run("insert_events", [rows.EVENT.row(event)])
