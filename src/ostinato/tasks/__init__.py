"""Built-in tasks: the work that people schedule most, known to every app by name.

Each is a module (or package) of this room that ends in a `TASK`, and has its description (args type, permits) under the
same name in `core.built_in`. It is imported when it first runs, so a process that never does pays nothing. None imports
another, and they reach the world only through their Context: the database by its desk, under the fence of the run, and
the network by `ctx.outgoing`. A user's own task of the same name goes first.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from ostinato.core.builtin import NAMES
from ostinato.task import Task


def load(name: str) -> Task[..., Any]:
    """A built-in task, imported now."""
    task: Task[..., Any] = import_module(f"{__name__}.{name}").TASK
    return task


BUILT_IN: Final[Mapping[str, Callable[[], Task[..., Any]]]] = {name: partial(load, name) for name in NAMES}
NEEDS: Final = {"crawl": "scrapy"}  # what an extra brings


def runnable() -> dict[str, Callable[[], Task[..., Any]]]:
    """Return the built-in tasks whose libraries are installed; a worker leaves the others to other workers."""
    return {
        name: task
        for name, task in BUILT_IN.items()
        if name not in NEEDS or find_spec(NEEDS[name]) is not None
    }
