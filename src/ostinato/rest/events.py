"""Endpoint of events: a list as JSON, or a stream."""

from typing import Annotated, Any, Final

from fastapi import Header, Query, Request
from starlette.concurrency import run_in_threadpool

from ostinato.rest.caller import Viewer
from ostinato.rest.dependencies import ServiceDep
from ostinato.rest.routers import api_router
from ostinato.rest.streams import Streams, Subscriber
from ostinato.service import Service
from ostinato.shapes.events import EventAnswer, EventList

router = api_router("events")

STREAM: Final = "text/event-stream"
STREAMED: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "A list; with `Accept: text/event-stream`, an endless stream",
        "content": {STREAM: {"schema": {"type": "string"}}},
    }
}

Kind = Annotated[str, Query(min_length=1, max_length=60)]
Cursor = Annotated[str | None, Query(max_length=4000, description="Only events after this cursor.")]


@router.get("/events", response_model=EventList, responses=STREAMED)
async def list_events(
    request: Request,
    service: ServiceDep,
    by: Viewer,
    job: Annotated[str | None, Query(max_length=200, description="The id or key of a job.")] = None,
    kind: Annotated[
        list[Kind] | None,
        Query(max_length=50, description="Only these kinds; job.* matches all kinds with this prefix."),
    ] = None,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=250, description="Maximum number of events without a cursor.")] = 50,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", max_length=4000)] = None,
) -> Any:
    """List events, the newest first; with a cursor, list the events after it, the oldest first.

    With `Accept: text/event-stream` events are streamed live; `Last-Event-ID` (or `cursor`) continues without a gap.
    """
    job_id = None if job is None else (await run_in_threadpool(service.jobs.get, job)).id
    since, kinds = last_event_id or cursor, kind or []
    if STREAM in request.headers.get("accept", ""):
        streams: Streams = request.app.state.streams
        return await streams.open(job_id, kinds, since, Subscriber.of(request))
    if since is None:
        return await run_in_threadpool(_newest, service, job_id, kinds, limit)
    items, following = await run_in_threadpool(service.feed(job_id).since, since, kinds)
    return EventList(events=[EventAnswer.of(item) for item in items], cursor=following)


def _newest(service: Service, job: Any, kinds: list[str], limit: int) -> EventList:
    _, cursor = service.feed(job).since(None)
    events = service.events(job, kinds, limit)
    return EventList(events=[EventAnswer.of_event(event) for event in events], cursor=cursor)
