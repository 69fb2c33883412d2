"""FastAPI routes of the table of endpoints.

FastAPI checks the role, reads the body and makes the document. Path and query are read as on the command line, by
endpoints/table.py, and the answer is written by shapes/answers.py.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from inspect import Parameter, Signature, getdoc
from types import NoneType
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ostinato.access.mounting import root_of
from ostinato.endpoints.table import Ask, Endpoint, tables
from ostinato.feature import Features
from ostinato.rest import events, logs
from ostinato.rest.caller import needs
from ostinato.rest.routers import api_router
from ostinato.shapes.answers import written
from ostinato.shapes.errors import ErrorAnswer
from ostinato.shapes.queries import pairs_of, parameters

Streaming = Callable[[Request, Endpoint], Awaitable[Response | None]]

# Endpoints that can also answer with a stream, and their answers for the document.
STREAMS: Final[Mapping[str, tuple[Streaming, Mapping[int | str, Any]]]] = {
    "/events": (events.streamed, events.STREAMED),
    "/executions/{id}/log": (logs.streamed, logs.TYPES),
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
    stream, told = STREAMS.get(endpoint.path, (None, {}))
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
        responses={**also, **told},
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
