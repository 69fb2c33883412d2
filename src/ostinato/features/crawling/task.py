"""The task `crawl`."""

from typing import Final

from ostinato.tasks.crawl import TASK

TASKS: Final = {"crawl": TASK}
