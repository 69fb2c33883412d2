"""The job of a source: the task `fetch`, with the definition as its args, and the policies of sources."""

import json
from datetime import datetime
from typing import Any, Final

from ostinato.core.errors import Invalid
from ostinato.core.model import Definition
from ostinato.core.payload import decode, encode
from ostinato.core.policy import FirstRun, Policies, WhenExhausted
from ostinato.core.schedule import Manual, next_after
from ostinato.features.sources.rules.definition import FirstFetch, Source
from ostinato.features.sources.rules.reading import read_source

TASK: Final = "fetch"
PREFIX: Final = "source:"


def key_of(name: str) -> str:
    """Return the key of a source's job."""
    return PREFIX + name


def definition_of(source: Source, app: str = "", begins_at: datetime | None = None) -> Definition:
    """Make the job of a source. A source that is not active gets no schedule, so it never runs.

    `begins_at`: see `grid_of`; its schedule is counted from there, and the first run is not at once.
    """
    execution = source.execution
    waits = source.first_run is FirstFetch.NEXT or begins_at is not None
    policies = Policies(
        first_run=FirstRun.NEXT if waits else FirstRun.NOW,
        start_at=begins_at,
        max_retries=execution.max_retries,
        retry_reset_period=execution.reset_period,
        when_exhausted=WhenExhausted.WAIT_RESET,
        timeout=execution.timeout,
    )
    return Definition(
        TASK,
        source.schedule if source.active else Manual(),
        args=encode({"source": json.loads(json.dumps(source.written))}),
        policies=policies,
        app=app,
        key=key_of(source.name),
        name=source.name,
        description=source.description,
        queue=source.queue,
        priority=source.priority,
        tags=source.tags,
        owner=source.owner,
    )


def grid_of(source: Source, newest: datetime | None, now: datetime) -> datetime | None:
    """Return the time from which the schedule of a new source is counted: that of its newest row.

    None if the source has no row, or is overdue: it runs at once.
    """
    if newest is None:
        return None
    due = next_after(source.schedule, newest, newest)
    return newest if due is not None and due > now else None


def is_source(definition: Definition) -> bool:
    """Return True if a job is the job of a source."""
    return definition.task == TASK and (definition.key or "").startswith(PREFIX)


def written_of(definition: Definition) -> dict[str, Any]:
    """Return the definition of a source as the user wrote it."""
    found = decode(definition.args).get("source")
    if not isinstance(found, dict):
        raise Invalid("The job of a source needs args with a `source`.")
    return found


def source_of(definition: Definition, timezone: str = "UTC") -> Source:
    """Read the source that a job fetches."""
    return read_source(written_of(definition), timezone)
