"""Logs of executions, a page at a time; rest/logs.py also has them as text and as a stream."""

from typing import Final

from ostinato.core.access import Role
from ostinato.endpoints.executions import ExecutionId, id_of
from ostinato.endpoints.table import Ask, Table, header
from ostinato.shapes.logs import LogAnswer, LogQuery

TABLE = Table("executions")

USUAL_LINES: Final = 1000
LAST_LINE: Final = header("Last-Event-ID", "A stream continues after this line.", 20)


@TABLE.get("/executions/{id}/log", Role.VIEWER, headers=(LAST_LINE,))
def get_log(ask: Ask, execution: ExecutionId, asked: LogQuery) -> LogAnswer:
    """Read the log, stdout and stderr of an execution, also while it runs.

    With `Accept: text/event-stream` lines are streamed live, with progress as `progress`. After the execution ends,
    `cut` (if the log was full) and `end` follow. `Last-Event-ID` (or `after`) continues without a gap.
    """
    limit = asked.limit or USUAL_LINES
    return LogAnswer.of(ask.service.executions.log(id_of(execution), after=asked.after, level=asked.level, limit=limit))
