"""The task `fetch`: a source, page after page, into its table.

`page` asks for a page and holds its body, `reading` finds the records in it, `mapped` makes rows of them, `run` stores
these, gets the next page meanwhile, and goes on with it. Parsing, mapping and storing happen on threads; only the
network is waited for on the loop. `turns` keeps these threads from waiting long for each other.
"""

from typing import Any

from ostinato.task import Context, Signal, Task
from ostinato.task.outcomes import hide_frames_of
from ostinato.tasks.fetch.errors import PermanentFailure, TransientFailure
from ostinato.tasks.fetch.run import SourceRun
from ostinato.tasks.fetch.turns import TURNS


async def fetch(ctx: Context, source: dict[str, Any]) -> dict[str, Any]:
    """Fetch an HTTP API into a table."""
    try:
        with TURNS.quick():
            return await SourceRun(ctx, source).go()
    except (TransientFailure, PermanentFailure, Signal) as error:
        raise error.with_traceback(None) from None  # the sentence says it all


hide_frames_of(__file__)
TASK = Task(fetch, "fetch")
TASK.hands_back = True  # every page that it has stored stays, and it goes on with the next
