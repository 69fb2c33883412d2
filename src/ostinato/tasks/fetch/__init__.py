"""The task `fetch`: it stores a source in its table, page by page.

`page` requests a page and holds its body, `reading` finds its records, and `mapped` makes rows of them. `run` stores
the rows, and fetches the next page meanwhile. Parsing, mapping and storing use threads; only the network is on the
loop. `turns` shortens the time that these threads wait for each other.
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
        raise error.with_traceback(None) from None  # the message is enough


hide_frames_of(__file__)
TASK = Task(fetch, "fetch")
TASK.hands_back = True  # stored pages stay, and the next run goes on from there
