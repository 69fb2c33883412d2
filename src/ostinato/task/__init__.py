"""Tasks and the objects that they use while they run: Task, Context, Registry and the signals.

This package uses neither the database nor the loop: the worker gives a Context its host, and the runner calls a Task.
"""

from ostinato.task.context import CallReply, Context, Progress, RunHost
from ostinato.task.registry import Registry, Resource
from ostinato.task.signals import Defer, GiveUp, RetryLater, Signal, Terminated
from ostinato.task.task import Call, Task

__all__ = [
    "Call",
    "CallReply",
    "Context",
    "Defer",
    "GiveUp",
    "Progress",
    "Registry",
    "Resource",
    "RetryLater",
    "RunHost",
    "Signal",
    "Task",
    "Terminated",
]
