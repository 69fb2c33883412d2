"""Workflows as values: what a graph of nodes is, what is wrong with one, what its references and conditions come to.

Pure, like all of core. What a run of a workflow does with it stands in core/lifecycle/steps.py.
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
