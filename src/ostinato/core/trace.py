"""The trace of an enqueue: a W3C traceparent in the metadata of a job that runs once.

It stands there under a reserved name, so that tracing needs no column of its own. Every door hides the name, and
refuses it in metadata from outside. Its reader takes nothing for granted: a row may be written by hand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from ostinato.core.errors import Invalid
from ostinato.core.model import EPOCH, MILLISECOND_BITS, Definition, Json, Live
from ostinato.core.payload import LIMIT, decode, encode, member

RESERVED: Final = "_trace"
CONTINUED_WITHIN: Final = timedelta(minutes=10)  # of the enqueue; a later run begins a trace of its own
ROOM: Final = 1024  # bytes, beside the metadata of the user
LONGEST: Final = 512  # characters of a traceparent


@dataclass(slots=True)
class Sending:
    """Definitions on their way to the store, and the ids of their jobs once they are made."""

    definitions: Sequence[Definition]
    job_ids: Sequence[UUID] = ()


def stored(metadata: Mapping[str, Any], before: Json = "{}") -> Json:
    """Write metadata from outside, and keep the trace of those before; raise Invalid for the reserved name."""
    if RESERVED in metadata:
        raise Invalid(f"metadata cannot have the name {RESERVED}: Ostinato keeps the trace of the enqueue there.")
    text, traceparent = encode(metadata, "metadata"), traceparent_of(before)
    return text if traceparent is None else traced(text, traceparent)


def shown(metadata: Json) -> dict[str, Any]:
    """Return metadata as people see them, without the trace."""
    found: dict[str, Any] = decode(metadata, "metadata")
    return {name: value for name, value in found.items() if name != RESERVED}


def visible(metadata: Json) -> Json:
    """Return the text of metadata without the trace."""
    return encode(shown(metadata), "metadata", LIMIT + ROOM) if RESERVED in metadata else metadata


def traced(metadata: Json, traceparent: str) -> Json:
    """Return metadata with the trace of the enqueue."""
    return encode({**shown(metadata), RESERVED: traceparent}, "metadata", LIMIT + ROOM)


def traceparent_of(metadata: Json) -> str | None:
    """Return the trace of the enqueue; None without one, or if it cannot be one."""
    found = member(metadata, RESERVED)
    return found if isinstance(found, str) and len(found) <= LONGEST else None


def page_of(template: str, traceparent: str | None) -> str:
    """Return the page of a trace in a tracing system; empty without one."""
    parts = (traceparent or "").split("-")
    if not template or len(parts) < 3:
        return ""
    return template.replace("{trace_id}", parts[1]).replace("{span_id}", parts[2])


def continues(live: Live) -> bool:
    """Return True if a run belongs to the trace of its enqueue: the first attempt, soon after it."""
    if live.number != 1 or live.attempt or live.started_at is None:
        return False
    enqueued = EPOCH + timedelta(milliseconds=live.job_id.int >> MILLISECOND_BITS)
    return live.started_at - enqueued <= CONTINUED_WITHIN
