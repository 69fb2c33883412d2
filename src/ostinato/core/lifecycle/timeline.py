"""The due times of a job: its schedule within its bounds."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from ostinato.core import schedule as when
from ostinato.core.model import Definition, Facts
from ostinato.core.schedule import Every

INSTANT = timedelta(microseconds=1)


def anchor_for(definition: Definition, now: datetime) -> datetime:
    """Where an interval's grid counts from: `start_at` is its first due time, else one period from now is."""
    start = definition.policies.start_at
    if start is not None and isinstance(definition.schedule, Every):
        return start - definition.schedule.period
    return now


def next_due(definition: Definition, facts: Facts, after: datetime) -> datetime | None:
    """The first due time strictly after an instant, or None when the schedule has come to its end."""
    policies = definition.policies
    if policies.start_at is not None:
        after = max(after, policies.start_at - INSTANT)
    due = when.next_after(definition.schedule, facts.anchor, after)
    if due is not None and policies.end_at is not None and due > policies.end_at:
        return None
    return due


def newest_due(definition: Definition, facts: Facts, at: datetime, floor: datetime) -> datetime | None:
    """The greatest due time d with floor < d <= at."""
    policies = definition.policies
    if policies.end_at is not None:
        at = min(at, policies.end_at)
    if policies.start_at is not None:
        floor = max(floor, policies.start_at - INSTANT)
    return when.latest_at_or_before(definition.schedule, facts.anchor, at, floor) if at > floor else None


def count_due(definition: Definition, facts: Facts, after: datetime, until: datetime) -> int:
    """How many due times d there are with after < d <= until."""
    policies = definition.policies
    if policies.end_at is not None:
        until = min(until, policies.end_at)
    if policies.start_at is not None:
        after = max(after, policies.start_at - INSTANT)
    return when.count_between(definition.schedule, facts.anchor, after, until) if until > after else 0


def backwards(definition: Definition, facts: Facts, at: datetime, floor: datetime) -> Iterator[datetime]:
    """Due times from the newest at or before `at` down to `floor` (exclusive)."""
    due = newest_due(definition, facts, at, floor)
    while due is not None:
        yield due
        due = newest_due(definition, facts, due - INSTANT, floor)
