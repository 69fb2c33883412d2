"""Endpoint of execution logs: a page as JSON, the whole log as text, or a stream."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from ostinato.core.errors import NotFound, StoreError
from ostinato.rest.caller import Viewer
from ostinato.rest.dependencies import ServiceDep
from ostinato.rest.events import STREAM
from ostinato.rest.executions import ExecutionId, id_of
from ostinato.rest.routers import api_router
from ostinato.rest.streams import AWAY, COMMENT_EVERY, LONGEST_STREAM, READ_EVERY, RETRY, Streams, Subscriber
from ostinato.service import ExecutionView, Service
from ostinato.service.log_levels import MOST_LINES
from ostinato.shapes.logs import LAST, LineAnswer, LogAnswer, LogQuery, cut_text, line_text
from ostinato.store.logs import LogPage

router = api_router("executions")

PLAIN: Final = "text/plain"
LIVE: Final = ("queued", "running")
TYPES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "A page; with `Accept: text/plain`, the whole log; "
        "with `Accept: text/event-stream`, a stream that ends with the execution",
        "content": {PLAIN: {"schema": {"type": "string"}}, STREAM: {"schema": {"type": "string"}}},
    }
}


@router.get("/executions/{id}/log", response_model=LogAnswer, responses=TYPES)
async def get_log(
    request: Request,
    execution: ExecutionId,
    asked: Annotated[LogQuery, Query()],
    service: ServiceDep,
    by: Viewer,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", max_length=20)] = None,
) -> Any:
    """Read the log, stdout and stderr of an execution, also while it runs.

    With `Accept: text/event-stream` lines are streamed live, with progress as `progress`. After the execution ends,
    `cut` (if the log was full) and `end` follow. `Last-Event-ID` (or `after`) continues without a gap.
    """
    execution_id, accept = id_of(execution), request.headers.get("accept", "")
    if STREAM in accept:
        streams: Streams = request.app.state.streams
        asked = asked.model_copy(update={"after": _number(last_event_id, asked.after)})
        first = await run_in_threadpool(_look, service, execution_id, asked)
        return streams.admit(_followed(service, execution_id, asked, first, streams), Subscriber.of(request))
    if PLAIN in accept and "json" not in accept:
        return await run_in_threadpool(_as_text, service, execution_id, asked)
    page = await run_in_threadpool(_page, service, execution_id, asked, asked.limit or 1000)
    return LogAnswer.of(page)


def _page(service: Service, execution_id: UUID, asked: LogQuery, limit: int = MOST_LINES) -> LogPage:
    return service.executions.log(execution_id, after=asked.after, level=asked.level, limit=limit)


def _as_text(service: Service, execution_id: UUID, asked: LogQuery) -> Response:
    first = _page(service, execution_id, asked, asked.limit or MOST_LINES)

    def pages() -> Iterator[str]:
        page = first
        yield "".join(map(line_text, page.lines))
        while asked.limit is None and len(page.lines) == MOST_LINES:
            page = _page(service, execution_id, asked.model_copy(update={"after": page.next}))
            yield "".join(map(line_text, page.lines))
        if page.cut and len(page.lines) < (asked.limit or MOST_LINES):
            yield cut_text(page.cut)

    return StreamingResponse(pages(), media_type=PLAIN)


# -- streams


def _number(last_event_id: str | None, after: int) -> int:
    """Return the number of the line after which a reconnected client continues."""
    known = last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit()
    return min(int(last_event_id or 0), LAST) if known else after


def _look(service: Service, execution_id: UUID, asked: LogQuery) -> tuple[ExecutionView, LogPage]:
    """Read the execution first, then its log: if the execution has ended, the log is complete."""
    return service.executions.get(execution_id), _page(service, execution_id, asked)


async def _followed(
    service: Service,
    execution_id: UUID,
    asked: LogQuery,
    first: tuple[ExecutionView, LogPage],
    streams: Streams,
) -> AsyncIterator[str]:
    yield f"retry: {RETRY}\n\n"
    (view, page), progress, now = first, None, asyncio.get_running_loop().time
    end, last_sent = now() + LONGEST_STREAM, now()
    while True:
        if page.lines or view.progress != progress:
            last_sent = now()
            yield "".join(
                f"id: {line.number}\ndata: {LineAnswer.of(line).model_dump_json()}\n\n" for line in page.lines
            )
        if view.progress is not None and view.progress != progress:
            progress = view.progress
            yield _event("progress", progress)
        whole = len(page.lines) < MOST_LINES
        if whole and view.status not in LIVE:
            if page.cut:
                yield _event("cut", {"bytes": page.cut})
            yield _event("end", {"status": view.status, "outcome": view.outcome})
            return
        if now() - last_sent >= COMMENT_EVERY:
            last_sent = now()
            yield ": still here\n\n"
        if streams.closed or now() >= end:
            return
        asked = asked.model_copy(update={"after": page.next})
        if whole:
            await asyncio.sleep(READ_EVERY)
        try:
            view, page = await run_in_threadpool(_look, service, execution_id, asked)
        except NotFound:  # deleted in the meantime
            return
        except StoreError:
            page = LogPage((), asked.after, 0)
            await asyncio.sleep(AWAY)


def _event(kind: str, data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"
