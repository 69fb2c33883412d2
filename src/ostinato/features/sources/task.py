"""The task `fetch`."""

from typing import Final

from ostinato.tasks.fetch import TASK

TASKS: Final = {"fetch": TASK}
