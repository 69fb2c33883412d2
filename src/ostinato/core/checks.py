"""Checks of a definition before it is stored. Wrong input is refused with a sentence; nothing changes."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from ostinato.core.bounds import (
    BAD_QUEUE_NAME,
    EARLIEST,
    LONGEST_BY_FIELD,
    LONGEST_TAG,
    LONGEST_WAIT,
    MOST_TAGS,
    QUEUE_NAME,
    is_storable,
)
from ostinato.core.errors import Invalid
from ostinato.core.limits import is_limited, limit_key, parse_rate
from ostinato.core.model import Definition
from ostinato.core.policy import Policies, WhenExhausted
from ostinato.core.retry import Backoff
from ostinato.core.run_args import run_args_flaw
from ostinato.core.schedule import Once, is_recurring

MOST_OF_ANYTHING: Final = 100_000_000  # largest limit of a run: a hundred terabytes, in megabytes


def check_definition(definition: Definition) -> None:
    """Raise Invalid for the first thing that is wrong."""
    for flaw in _flaws(definition):
        raise Invalid(flaw)


def _flaws(definition: Definition) -> Iterator[str]:
    yield from _text_flaws(definition)
    if not QUEUE_NAME.fullmatch(definition.queue):
        yield BAD_QUEUE_NAME.format(name=definition.queue)
    if not 1 <= definition.priority <= 10:
        yield f"A priority is a number from 1 (first) to 10, not {definition.priority}."
    if len(definition.tags) > MOST_TAGS or any(not 0 < len(tag) <= LONGEST_TAG for tag in definition.tags):
        yield f"At most {MOST_TAGS} tags, each of 1 to {LONGEST_TAG} characters."
    if isinstance(definition.schedule, Once) and definition.schedule.at < EARLIEST:
        yield "A job cannot be due before 1900."
    yield from _policy_flaws(definition.policies, is_recurring(definition.schedule))
    yield from _limit_flaws(definition)


def _limit_flaws(definition: Definition) -> Iterator[str]:
    policies = definition.policies
    if policies.max_concurrency is not None and not 1 <= policies.max_concurrency <= 1_000_000:
        yield f"max_concurrency must be between 1 and 1,000,000, not {policies.max_concurrency}."
    if policies.after is not None and not (0 < len(policies.after) <= 200 and is_storable(policies.after)):
        yield "after is the id or key of a job, of 1 to 200 characters."
    if policies.concurrency_key is not None and not is_limited(policies):
        yield "concurrency_key says which runs share a limit: set max_concurrency or rate_limit too."
    try:
        if policies.rate_limit is not None:
            parse_rate(policies.rate_limit)
        limit_key(definition)
    except Invalid as error:
        yield str(error)


def _text_flaws(definition: Definition) -> Iterator[str]:
    if not definition.task:
        yield "A job needs the name of a task."
    for field, longest in LONGEST_BY_FIELD.items():
        text = getattr(definition, field)
        if text is not None and len(text) > longest:
            yield f"The {field} is longer than {longest} characters."
    texts = [getattr(definition, field) for field in LONGEST_BY_FIELD]
    texts += [*definition.tags, *definition.policies.run_args]
    if any(text is not None and not is_storable(text) for text in texts):
        yield "Text cannot contain NUL characters or half of a surrogate pair."
    if definition.key == "":
        yield "A key cannot be empty; leave it out instead."


def _policy_flaws(policies: Policies, recurring: bool) -> Iterator[str]:
    for name in ("total_repeats", "max_retries"):
        if not 0 <= getattr(policies, name) <= 1_000_000_000:
            yield f"{name} must be 0 or more, not {getattr(policies, name)}."
    if not 1 <= policies.max_overlap <= 1000:
        yield f"max_overlap must be between 1 and 1000, not {policies.max_overlap}."
    if not 1 <= policies.catch_up_limit <= 10_000:
        yield f"catch_up_limit must be between 1 and 10,000, not {policies.catch_up_limit}."
    if policies.keep_executions is not None and not 1 <= policies.keep_executions <= 10_000:
        yield f"keep_executions must be between 1 and 10,000, not {policies.keep_executions}."
    if policies.keep_days is not None and not 0 <= policies.keep_days <= 36_500:
        yield f"keep_days must be between 0 and 36,500, not {policies.keep_days}."
    for name in ("memory_limit_mb", "open_files_limit", "output_limit_mb"):
        if (limit := getattr(policies, name)) is not None and not 1 <= limit <= MOST_OF_ANYTHING:
            yield f"{name} must be between 1 and {MOST_OF_ANYTHING:,}, not {limit}."
    if (flaw := run_args_flaw(policies.run_args)) is not None:
        yield flaw
    yield from _wait_flaws(policies)
    yield from _bound_flaws(policies)
    if policies.when_exhausted is WhenExhausted.WAIT_RESET and policies.retry_reset_period is None:
        yield "when_exhausted: wait_reset needs a retry_reset_period to wait for."
    if policies.fixed_delay and not recurring:
        yield "fixed_delay is for schedules that repeat."


def _wait_flaws(policies: Policies) -> Iterator[str]:
    positive = {
        "timeout": policies.timeout,
        "retry_reset_period": policies.retry_reset_period,
        "cpu_limit": policies.cpu_limit,
    }
    for name, value in positive.items():
        if value is not None and not timedelta(0) < value <= LONGEST_WAIT:
            yield f"{name} must be longer than 0 s and at most ten years."
    others = {
        "jitter": policies.jitter,
        "late_after": policies.late_after,
        "catch_up_within": policies.catch_up_within,
    }
    for name, value in others.items():
        if value is not None and not timedelta(0) <= value <= LONGEST_WAIT:
            yield f"{name} must be between 0 s and ten years."
    yield from _backoff_flaws(policies.backoff)


def _backoff_flaws(backoff: Backoff) -> Iterator[str]:
    if max(backoff.base, backoff.cap, *backoff.steps) > LONGEST_WAIT:
        yield "A backoff must be at most ten years."


def _bound_flaws(policies: Policies) -> Iterator[str]:
    for name in ("start_at", "end_at"):
        value: datetime | None = getattr(policies, name)
        if value is not None and value.tzinfo is None:
            yield f"{name} has no time zone; say which one is meant, for example 2026-11-16T09:00:00Z."
            return
        if value is not None and value < EARLIEST:
            yield f"{name} lies before 1900, where no schedule begins or ends."
    if policies.start_at is not None and policies.end_at is not None and policies.end_at < policies.start_at:
        yield "end_at lies before start_at: this schedule would never run."
