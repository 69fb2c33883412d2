"""Workflows: graphs of steps, each step an execution of its own."""

from typing import Final

from ostinato.feature import Feature

FEATURE: Final = Feature(
    package=__name__,
    tables=("workflows", "workflow_versions"),
    tasks=("workflow",),
    commands={"workflow": "Workflows: apply, list, show, run, trigger, delete."},
    menu=((70, "/workflows", "Workflows"),),
)
