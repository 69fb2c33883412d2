"""The job of a source: the task `fetch`, with the definition as its args, and the policies of sources."""

import json
from typing import Any, Final

from ostinato.core.errors import Invalid
from ostinato.core.model import Definition
from ostinato.core.payload import decode, encode
from ostinato.core.policy import FirstRun, Policies, WhenExhausted
from ostinato.core.schedule import Manual
from ostinato.features.sources.rules.definition import Source
from ostinato.features.sources.rules.reading import read_source

TASK: Final = "fetch"
PREFIX: Final = "source:"


def key_of(name: str) -> str:
    """Return the key of a source's job."""
    return PREFIX + name


def definition_of(source: Source, app: str = "") -> Definition:
    """Make the job of a source. A source that is not active gets no schedule, so it never runs."""
    execution = source.execution
    policies = Policies(
        first_run=FirstRun.NOW,
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
