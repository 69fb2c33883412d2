"""The task `workflow`."""

from typing import Final

from ostinato.tasks.workflow import TASK

TASKS: Final = {"workflow": TASK}
