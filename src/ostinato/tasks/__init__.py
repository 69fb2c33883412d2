"""Built-in tasks: the most common kinds of work, which every app has by name.

Each is a module or package here that ends in a `TASK`. Its args type and permits have the same name in `core.builtin`.
A task is imported when it first runs. Tasks do not import each other. They use only their Context: for the database
its host, under the fence of the run, and for the network `ctx.outgoing`. A user's task of the same name replaces one.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from ostinato.core.builtin import NAMES
from ostinato.task import Task


def load(name: str) -> Task[..., Any]:
    """Import and return a built-in task."""
    task: Task[..., Any] = import_module(f"{__name__}.{name}").TASK
    return task


BUILT_IN: Final[Mapping[str, Callable[[], Task[..., Any]]]] = {name: partial(load, name) for name in NAMES}
NEEDS: Final = {"crawl": "scrapy"}  # libraries of extras


def runnable() -> dict[str, Callable[[], Task[..., Any]]]:
    """Return the built-in tasks whose libraries are installed; a worker leaves the others to other workers."""
    return {name: task for name, task in BUILT_IN.items() if name not in NEEDS or find_spec(NEEDS[name]) is not None}
