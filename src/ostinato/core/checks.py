"""Checks of a definition before it is stored, and of args given at a run. Wrong input is refused with a sentence."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from ostinato.core.access import Role
from ostinato.core.errors import Forbidden, Invalid
from ostinato.core.limits import is_limited, limit_key, parse_rate
from ostinato.core.model import Definition, Json
from ostinato.core.payload import (
    BAD_QUEUE_NAME,
    CANONICAL,
    EARLIEST,
    LONGEST_BY_FIELD,
    LONGEST_TAG,
    LONGEST_WAIT,
    MOST_TAGS,
    QUEUE_NAME,
    decode,
    is_storable,
)
from ostinato.core.policy import Backoff, Policies, WhenExhausted
from ostinato.core.schedule import Once, is_recurring

# -- Args given at a run: merged over the job's, and limited to `run_args` for operators.
#
#     job args      {"url": "https://…", "values": {"day": "mon", "city": "Paris"}}
#     given         {"values.day": "tue"}         one value inside an object
#     given         {"values": {"day": "tue"}}    the whole object: `city` is removed
#     given         {"values": null}              the argument is removed
#
# For operators the merged args are checked: `run_args` must name each value that differs from the job's, or the object
# around it.

MOST_NAMES: Final = 50
LONGEST_PATH: Final = 200


def merge(args: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the job's args with those given at a run; whole arguments first, then values inside them."""
    found = dict(args)
    for name in sorted(given, key=lambda each: "." in each):
        outer, dot, inner = name.partition(".")
        if dot:
            found[outer] = _with(_object(found.get(outer), outer, name), inner, given[name])
        else:
            found = _with(found, name, given[name])
    return found


def check_run_args(definition: Definition, wanted: Json, role: Role) -> None:
    """Raise Forbidden if a run with these args needs a role above this one."""
    if role.allows(Role.ADMIN):
        return
    may_set = definition.policies.run_args
    refused = [
        name
        for name in _differences(decode(definition.args), decode(wanted))
        if name not in may_set and name.partition(".")[0] not in may_set
    ]
    if refused:
        allowed = f"only {', '.join(may_set)}" if may_set else "nothing"
        raise Forbidden(
            f"The role {role.value} cannot set {', '.join(refused)} at a run of this job; its run_args allow {allowed}."
        )


def run_args_flaw(names: Collection[str]) -> str | None:
    """Return the error of a list of names, if there is one."""
    if len(names) > MOST_NAMES:
        return f"run_args has at most {MOST_NAMES} names."
    for name in names:
        if not 0 < len(name) <= LONGEST_PATH or not all(name.split(".", 1)):
            return f"run_args holds names of args, such as day or values.day, not {name[:60]!r}."
    return None


def _with(values: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    others = {each: kept for each, kept in values.items() if each != name}
    return others if value is None else others | {name: value}


def _object(value: Any, outer: str, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return value
    raise Invalid(f"args.{name}: args.{outer} of this job is not an object; set {outer} as a whole.")


def _differences(args: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    """Name each value that is not the same in both; inside objects one level deeper."""
    for name in _changed(args, wanted):
        before, after = args.get(name), wanted.get(name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from (f"{name}.{inner}" for inner in _changed(before, after))
        elif name not in args and isinstance(after, Mapping) and after:
            yield from (f"{name}.{inner}" for inner in sorted(after))
        else:
            yield name


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Compare as JSON does: true is not 1, and the order of names does not count."""
    return sorted(
        name
        for name in before.keys() | after.keys()
        if name not in before or name not in after or CANONICAL(before[name]) != CANONICAL(after[name])
    )


# -- Checks of a definition before it is stored. Wrong input is refused with a sentence; nothing changes

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
