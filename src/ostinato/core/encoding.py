"""Schedules and policies as text, and back. Reading returns exactly the value that was written."""

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, get_args, get_type_hints

from ostinato.core import schedule
from ostinato.core.policy import Backoff, Policies
from ostinato.core.schedule import Schedule
from ostinato.core.times import Window

MICROSECOND: Final = timedelta(microseconds=1)
CACHED_POLICIES: Final = 4096  # most jobs share a few policies; parsing costs more than looking up


def schedule_text(value: Schedule) -> str:
    """Write a schedule as JSON text."""
    return _dumps(schedule.to_json(value))


@lru_cache(CACHED_POLICIES)
def schedule_of(text: str) -> Schedule:
    """Read a schedule from its text."""
    return schedule.from_json(json.loads(text))


@lru_cache(CACHED_POLICIES)
def policies_text(policies: Policies) -> str:
    """Write the policies that differ from the defaults as JSON: a job's row is rewritten with each run, so it is small.

    So the defaults belong to the stored format: a version that changes one must read old texts with the old default.
    """
    return _dumps({name: _plain(value) for name, value in _fields(policies) if value != getattr(DEFAULTS, name)})


@lru_cache(CACHED_POLICIES)
def policies_of(text: str) -> Policies:
    """Read policies from their text; a policy that it does not name has its default."""
    raw = json.loads(text)
    return Policies(**{name: _read(POLICY_TYPES[name], value) for name, value in raw.items() if name in POLICY_TYPES})


DEFAULTS: Final = Policies()
POLICY_TYPES: Final = get_type_hints(Policies)
BACKOFF_TYPES: Final = get_type_hints(Backoff)


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _fields(value: Policies | Backoff) -> list[tuple[str, Any]]:
    return [(field.name, getattr(value, field.name)) for field in fields(value)]


def _plain(value: Any) -> Any:
    match value:
        case Window():
            return value.to_json()
        case Backoff():
            return {n: _plain(each) for n, each in _fields(value) if each != getattr(DEFAULTS.backoff, n)}
        case StrEnum():
            return value.value
        case timedelta():
            return value // MICROSECOND
        case datetime():
            return value.isoformat()
        case tuple():
            return [_plain(item) for item in value]
        case _:
            return value


def _read(kind: Any, value: Any) -> Any:
    """Convert a plain value to the type of its field."""
    kinds = [each for each in (*get_args(kind), kind) if isinstance(each, type)]
    if value is None:
        return None
    if isinstance(value, Mapping):
        return Window.from_json(value) if Window in kinds else _backoff(value)
    if isinstance(value, list):
        return tuple(_read(kinds[0], item) for item in value)
    if timedelta in kinds:
        return value * MICROSECOND
    if datetime in kinds:
        return datetime.fromisoformat(value)
    enums = [each for each in kinds if issubclass(each, StrEnum)]
    return enums[0](value) if enums else value


def _backoff(raw: Mapping[str, Any]) -> Backoff:
    return Backoff(**{name: _read(BACKOFF_TYPES[name], value) for name, value in raw.items() if name in BACKOFF_TYPES})
