"""Events, as a list; rest/events.py also has them as a stream."""

from typing import Final

from ostinato.core.access import Role
from ostinato.endpoints.table import Ask, Table, header
from ostinato.shapes.events import EventAnswer, EventList
from ostinato.shapes.queries import EventQuery

TABLE = Table("events")

LAST_EVENT: Final = header("Last-Event-ID", "A stream continues after this event.", 4000)


@TABLE.get("/events", Role.VIEWER, headers=(LAST_EVENT,))
def list_events(ask: Ask, asked: EventQuery) -> EventList:
    """List events, the newest first; with a cursor, list the events after it, the oldest first.

    With `Accept: text/event-stream` events are streamed live; `Last-Event-ID` (or `cursor`) continues without a gap.
    """
    job = None if asked.job is None else ask.service.jobs.get(asked.job).id
    if (since := ask.header("Last-Event-ID") or asked.cursor) is None:
        _, cursor = ask.service.feed(job).since(None)
        newest = ask.service.events(job, asked.kind, asked.limit)
        return EventList(events=[EventAnswer.of_event(event) for event in newest], cursor=cursor)
    items, following = ask.service.feed(job).since(since, asked.kind)
    return EventList(events=[EventAnswer.of(item) for item in items], cursor=following)
