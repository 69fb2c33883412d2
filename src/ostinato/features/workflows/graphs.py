"""The graphs of workflows for runs: parsed once, and cached. A version never changes, so a parsed graph stays valid."""

import json
import threading
from collections import OrderedDict
from typing import Final

from ostinato.core.errors import NotFound
from ostinato.features.workflows.rules import Graph, RunState, read_graph
from ostinato.store.database import Tx

KNOWN: Final = 1000  # parsed graphs


class Graphs:
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
