"""The task `fetch`."""

from typing import Any, Final

from ostinato.features.sources.fetch.errors import PermanentFailure, TransientFailure
from ostinato.features.sources.fetch.run import SourceRun
from ostinato.features.sources.fetch.turns import TURNS
from ostinato.task import Context, Signal, Task
from ostinato.task.signals import hide_frames_of

hide_frames_of(__file__)


async def fetch(ctx: Context, source: dict[str, Any], allow_deletions: bool = False) -> dict[str, Any]:
    """Fetch an HTTP API into a table."""
    try:
        with TURNS.quick():
            return await SourceRun(ctx, source, allow_deletions).go()
    except (TransientFailure, PermanentFailure, Signal) as error:
        raise error.with_traceback(None) from None  # the message is enough


_TASK: Final = Task(fetch, "fetch")
_TASK.hands_back = True  # stored pages stay, and the next run goes on from there
TASKS: Final = {"fetch": _TASK}
