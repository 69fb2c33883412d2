"""The witness: a record of the begin and end of each call of a task, for tests.

With `OSTINATO_WITNESS=DIR` each process appends one line of JSON for each event to its own file in that folder. Tests
count calls by these lines, independently of the database. Without the variable it costs nothing.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Final

from ostinato.task.context import Context
from ostinato.task.signals import hide_frames_of
from ostinato.task.task import Task

VARIABLE: Final = "OSTINATO_WITNESS"
FILE_MODE: Final = 0o600

hide_frames_of(__file__)


class Witness:
    """The file of one process, with a line for the begin and the end of each call."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / f"bodies-{os.getpid()}.jsonl"

    def noting(self, task: Task[..., Any]) -> Task[..., Any]:
        """Return a copy of the task that records its calls."""
        noted = copy(task)
        vars(noted)["call"] = partial(self._awaited if task.is_async else self._called, task)
        return noted

    def _called(self, task: Task[..., Any], context: Context, arguments: dict[str, Any]) -> Any:
        with self._noted(context):
            return task.call(context, arguments)

    async def _awaited(self, task: Task[..., Any], context: Context, arguments: dict[str, Any]) -> Any:
        with self._noted(context):
            return await task.call(context, arguments)

    @contextmanager
    def _noted(self, context: Context) -> Iterator[None]:
        self._note("begin", context)
        try:
            yield
        except BaseException as error:
            self._note("end", context, type(error).__name__)
            raise
        self._note("end", context)

    def _note(self, event: str, context: Context, raised: str | None = None) -> None:
        live = context.live
        line = {
            "event": event, "at": time.time(), "execution": str(live.id), "job": str(live.job_id),
            "number": live.number, "step": live.step, "attempt": live.attempt, "fence": live.fence,
            "worker": context.worker, "pid": os.getpid(), "raised": raised,
        }  # fmt: skip
        descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, FILE_MODE)
        try:
            os.write(descriptor, f"{json.dumps(line)}\n".encode())  # one write, so that lines of threads do not mix
        finally:
            os.close(descriptor)


def witness_of_environment() -> Witness | None:
    """Return the witness if the environment asks for one."""
    folder = os.environ.get(VARIABLE)
    return Witness(Path(folder)) if folder else None
