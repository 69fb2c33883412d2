"""Workflows as values: graphs of nodes and their checks, references and conditions.

Pure functions, like all of core. The rules of a workflow's run are in features/workflows/rules/run.py.
"""

from ostinato.features.workflows.rules.graph import Graph, GraphStep, Trigger, TriggerKind, read_graph
from ostinato.features.workflows.rules.state import (
    SCHEDULE,
    WORKFLOW_TASK,
    Origin,
    RunState,
    StepState,
    matching_trigger,
)

__all__ = [
    "SCHEDULE",
    "WORKFLOW_TASK",
    "Graph",
    "GraphStep",
    "Origin",
    "RunState",
    "StepState",
    "Trigger",
    "TriggerKind",
    "matching_trigger",
    "read_graph",
]
