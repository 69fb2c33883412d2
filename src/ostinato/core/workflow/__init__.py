"""Workflows as values: graphs of nodes and their checks, references and conditions.

Pure functions, like all of core. The rules of a workflow's run are in core/lifecycle/steps.py.
"""

from ostinato.core.workflow.graph import Graph, GraphStep, Trigger, TriggerKind, read_graph
from ostinato.core.workflow.origin import SCHEDULE, WORKFLOW_TASK, Origin, matching_trigger
from ostinato.core.workflow.state import RunState, StepState

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
