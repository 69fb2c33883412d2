"""Events as a stream; as JSON they come from endpoints/events.py."""

from typing import Any, Final

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ostinato.endpoints.table import Endpoint
from ostinato.rest.streams import Streams, Subscriber
from ostinato.shapes.queries import EventQuery, pairs_of, read_query

STREAM: Final = "text/event-stream"
STREAMED: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "A list; with `Accept: text/event-stream`, an endless stream",
        "content": {STREAM: {"schema": {"type": "string"}}},
    }
}


async def streamed(request: Request, endpoint: Endpoint) -> Response | None:
    """Answer with a stream; None if the caller wants JSON."""
    if STREAM not in request.headers.get("accept", ""):
        return None
    asked = read_query(EventQuery, pairs_of(request.query_params.multi_items()))
    service, streams = request.app.state.service, request.app.state.streams
    assert isinstance(streams, Streams)
    job_id = None if asked.job is None else (await run_in_threadpool(service.jobs.get, asked.job)).id
    since = request.headers.get("last-event-id") or asked.cursor
    return await streams.open(job_id, list(asked.kind), since, Subscriber.of(request))
