"""Logs of executions as text and as streams; as JSON they come from endpoints/logs.py."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from ostinato.core.errors import NotFound, StoreError
from ostinato.core.read_models import LogPage
from ostinato.endpoints.executions import id_of
from ostinato.endpoints.table import Endpoint
from ostinato.rest.events import STREAM
from ostinato.rest.streams import AWAY, COMMENT_EVERY, LONGEST_STREAM, READ_EVERY, RETRY, Streams, Subscriber
from ostinato.service import ExecutionView, Service
from ostinato.service.log_levels import MOST_LINES
from ostinato.shapes.answers import written
from ostinato.shapes.logs import LAST, LineAnswer, LogQuery, cut_text, line_text
from ostinato.shapes.queries import pairs_of, read_query

PLAIN: Final = "text/plain"
LIVE: Final = ("queued", "running")
TYPES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "A page; with `Accept: text/plain`, the whole log; "
        "with `Accept: text/event-stream`, a stream that ends with the execution",
        "content": {PLAIN: {"schema": {"type": "string"}}, STREAM: {"schema": {"type": "string"}}},
    }
}


async def streamed(request: Request, endpoint: Endpoint) -> Response | None:
    """Answer with a stream or with the whole log as text; None if the caller wants JSON."""
    accept, service = request.headers.get("accept", ""), request.app.state.service
    if STREAM not in accept and (PLAIN not in accept or "json" in accept):
        return None
    execution_id = id_of(request.path_params["id"])
    asked = read_query(LogQuery, pairs_of(request.query_params.multi_items()))
    if STREAM not in accept:
        return await run_in_threadpool(_as_text, service, execution_id, asked)
    streams: Streams = request.app.state.streams
    asked = replace(asked, after=_number(request.headers.get("last-event-id"), asked.after))
    first = await run_in_threadpool(_look, service, execution_id, asked)
    return streams.admit(_followed(service, execution_id, asked, first, streams), Subscriber.of(request))


def _page(service: Service, execution_id: UUID, asked: LogQuery, limit: int = MOST_LINES) -> LogPage:
    return service.executions.log(execution_id, after=asked.after, level=asked.level, limit=limit)


def _as_text(service: Service, execution_id: UUID, asked: LogQuery) -> Response:
    first = _page(service, execution_id, asked, asked.limit or MOST_LINES)

    def pages() -> Iterator[str]:
        page = first
        yield "".join(map(line_text, page.lines))
        while asked.limit is None and len(page.lines) == MOST_LINES:
            page = _page(service, execution_id, replace(asked, after=page.next))
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
            yield "".join(f"id: {line.number}\ndata: {written(LineAnswer.of(line))}\n\n" for line in page.lines)
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
        asked = replace(asked, after=page.next)
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
