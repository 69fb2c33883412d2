"""FastAPI routes of the table of endpoints; events as a stream, logs as text and as streams.

FastAPI checks the role, reads the body and makes the document. Path and query are read as on the command line, by
endpoints/table.py, and the answer is written by shapes/answers.py.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from inspect import Parameter, Signature, getdoc
from types import NoneType
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from ostinato.access.mounting import root_of
from ostinato.core.errors import NotFound, StoreError
from ostinato.core.payload import MOST_LINES
from ostinato.core.read_models import LogPage
from ostinato.endpoints.executions import id_of
from ostinato.endpoints.table import Ask, Endpoint, tables
from ostinato.feature import Features
from ostinato.rest.caller import needs
from ostinato.rest.failures import api_router
from ostinato.rest.streams import AWAY, COMMENT_EVERY, LONGEST_STREAM, READ_EVERY, RETRY, Streams, Subscriber
from ostinato.service import ExecutionView, Service
from ostinato.shapes.answers import ErrorAnswer, written
from ostinato.shapes.executions import LAST, LineAnswer, LogQuery, cut_text, line_text
from ostinato.shapes.queries import EventQuery, pairs_of, parameters, read_query

# -- Events as a stream; as JSON they come from endpoints/operating.py

STREAM: Final = "text/event-stream"
EVENT_TYPES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "A list; with `Accept: text/event-stream`, an endless stream",
        "content": {STREAM: {"schema": {"type": "string"}}},
    }
}


async def stream_of_events(request: Request, endpoint: Endpoint) -> Response | None:
    """Answer with a stream; None if the caller wants JSON."""
    if STREAM not in request.headers.get("accept", ""):
        return None
    asked = read_query(EventQuery, pairs_of(request.query_params.multi_items()))
    service, streams = request.app.state.service, request.app.state.streams
    assert isinstance(streams, Streams)
    job_id = None if asked.job is None else (await run_in_threadpool(service.jobs.get, asked.job)).id
    since = request.headers.get("last-event-id") or asked.cursor
    return await streams.open(job_id, list(asked.kind), since, Subscriber.of(request))


# -- Logs of executions as text and as streams; as JSON they come from endpoints/executions.py

PLAIN: Final = "text/plain"
LIVE: Final = ("queued", "running")
LOG_TYPES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "A page; with `Accept: text/plain`, the whole log; "
        "with `Accept: text/event-stream`, a stream that ends with the execution",
        "content": {PLAIN: {"schema": {"type": "string"}}, STREAM: {"schema": {"type": "string"}}},
    }
}


async def stream_of_log(request: Request, endpoint: Endpoint) -> Response | None:
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


# -- FastAPI routes of the table of endpoints

Streaming = Callable[[Request, Endpoint], Awaitable[Response | None]]

# Endpoints that can also answer with a stream, and their answers for the document.
STREAMS: Final[Mapping[str, tuple[Streaming, Mapping[int | str, Any]]]] = {
    "/events": (stream_of_events, EVENT_TYPES),
    "/executions/{id}/log": (stream_of_log, LOG_TYPES),
}


def routes_of(features: Features) -> Iterator[APIRoute]:
    """Make the routes of all endpoints."""
    for table in tables(features):
        router = api_router("")
        router.tags = []
        for endpoint in table:
            _add(router, endpoint)
        yield from (each for each in router.routes if isinstance(each, APIRoute))


def asked(request: Request) -> Ask:
    """Return the request as endpoints see it."""
    state = request.app.state
    return Ask(
        state.service,
        request.state.caller,
        state.settings.timezone,
        headers=request.headers,
        check=request.state.check,
    )


def _add(router: APIRouter, endpoint: Endpoint) -> None:
    stream, stream_answers = STREAMS.get(endpoint.path, (None, {}))
    also: dict[int | str, dict[str, Any]] = {
        status: {"model": endpoint.answers_with if status < 400 else ErrorAnswer, "description": text}
        for status, text in endpoint.also.items()
    }
    router.add_api_route(
        endpoint.path,
        _answering(endpoint) if stream is None else _streaming(endpoint, stream),
        methods=[endpoint.method],
        name=endpoint.function.__name__,
        tags=[endpoint.tag],
        description=getdoc(endpoint.function),
        status_code=endpoint.status,
        response_model=None if endpoint.answers_with is NoneType else endpoint.answers_with,
        include_in_schema=endpoint.is_documented,
        responses={**also, **stream_answers},
        dependencies=[needs(endpoint.role)],
        openapi_extra={"parameters": _documented(endpoint)},
    )


def _answering(endpoint: Endpoint) -> Callable[..., Response]:
    def answer(request: Request, **body: Any) -> Response:
        ask = asked(request)
        found = endpoint.call(ask, request.path_params, pairs_of(request.query_params.multi_items()), **body)
        status = ask.status or endpoint.status
        if "Location" in ask.headers:
            ask.headers["Location"] = root_of(request.scope) + ask.headers["Location"]
        return Response(None if status == 204 else written(found), status, ask.headers, "application/json")

    takes = [Parameter("request", Parameter.POSITIONAL_OR_KEYWORD, annotation=Request)]
    if endpoint.taken.body is not None:
        name, kind, default = endpoint.taken.body
        takes.append(Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default))
    answer.__signature__ = Signature(takes)  # type: ignore[attr-defined]  # FastAPI reads it
    return answer


def _streaming(endpoint: Endpoint, stream: Streaming) -> Callable[[Request], Awaitable[Response]]:
    answer = _answering(endpoint)

    async def answer_or_stream(request: Request) -> Response:
        endpoint.check_headers(request.headers.get)
        streamed = await stream(request, endpoint)
        return await run_in_threadpool(answer, request) if streamed is None else streamed

    return answer_or_stream


def _documented(endpoint: Endpoint) -> list[Mapping[str, Any]]:
    query = [] if endpoint.taken.query is None else parameters(endpoint.taken.query[1])
    places = [
        {
            "name": place.name, "in": "path", "required": True, "description": place.description,
            "schema": place.kind.schema,
        }
        for place in endpoint.taken.places.values()
    ]  # fmt: skip
    return [*places, *query, *endpoint.headers]
