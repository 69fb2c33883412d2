"""Limits across all workers: runs at once, and runs per period.

A row of a job with a limit carries a key: that of its task, or of its task and a part of its args. It waits outside
the claim index (`waits_for: limit`) until it is admitted: fewer than `max_concurrency` rows of its key may start or
run, and fewer than `rate_limit` were admitted in any stretch of that length. The decision is made under a lock on the
key.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from ostinato.core.errors import Invalid
from ostinato.core.model import Definition, Json
from ostinato.core.payload import decode
from ostinato.core.policy import Policies
from ostinato.core.times import parse_duration

RATE: Final = re.compile(r"\s*(?P<count>\d{1,9})\s*/\s*(?P<period>.+?)\s*")
PLACE: Final = re.compile(r"\{args(?P<path>(?:\[[^\[\]{}]+\])+)\}")
STEP: Final = re.compile(r"\[([^\[\]{}]+)\]")
MOST_IN_A_WHILE: Final = 1000  # the time of each is stored
LONGEST_WHILE: Final = timedelta(days=1)
LONGEST_KEY: Final = 200
# Between their admission and their starts, the gap of two runs may shrink by this much.
START: Final = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class Rate:
    """A number of admissions in any stretch of this length."""

    count: int
    period: timedelta


@dataclass(frozen=True, slots=True)
class Admitted:
    """The first `count` waiting runs are admitted. `recent` is stored; `next_at`: when the rate allows more."""

    count: int
    recent: tuple[datetime, ...]
    next_at: datetime | None = None


@lru_cache(1024)
def parse_rate(text: str) -> Rate:
    """Read `10/m`, `5/s`, `100/h`, `1/d` or `20/30s`."""
    match = RATE.fullmatch(text)
    if match is None:
        raise Invalid(f"A rate is written like 10/m, 5/s or 20/30s, not {text!r}.")
    period = match["period"]
    length = parse_duration(period if period[0].isdigit() else f"1{period}")
    count = int(match["count"])
    if not 1 <= count <= MOST_IN_A_WHILE:
        raise Invalid(f"A rate allows between 1 and {MOST_IN_A_WHILE:,} in its period, not {count:,}.")
    if not timedelta(milliseconds=100) <= length <= LONGEST_WHILE:
        raise Invalid(f"The period of a rate is between 0.1 s and a day, not {period}.")
    return Rate(count, length)


def is_limited(policies: Policies) -> bool:
    return policies.max_concurrency is not None or policies.rate_limit is not None


def limit_key(definition: Definition, args: Json | None = None) -> str | None:
    """Return the key of a job's limit with these args; None without a limit."""
    policies = definition.policies
    if not is_limited(policies):
        return None
    owner = f"{definition.app}/{definition.task}"
    if policies.concurrency_key is None:
        return _short(owner)
    return _short(f"{owner}:{_rendered(policies.concurrency_key, decode(args or definition.args))}")


def passage(policies: Policies, waiting: int, active: int, recent: Sequence[datetime], now: datetime) -> Admitted:
    """Admit some of the `waiting` rows of a key; `active` ones may start or run, `recent` ones were just admitted."""
    free = waiting
    if policies.max_concurrency is not None:
        free = min(free, max(policies.max_concurrency - active, 0))
    if policies.rate_limit is None:
        return Admitted(free, ())
    rate = parse_rate(policies.rate_limit)
    stretch = rate.period + START
    within = sorted(min(at, now) for at in recent)  # a clock may have been set back
    within = [at for at in within if now - at < stretch]
    allowed = min(free, max(rate.count - len(within), 0))
    kept = (*within, *[now] * allowed)
    too_many = len(kept) - rate.count  # after an edit to a lower rate more than one must expire
    return Admitted(allowed, kept, kept[max(too_many, 0)] + stretch if allowed < free else None)


def _rendered(template: str, args: Mapping[str, Any]) -> str:
    def value(place: re.Match[str]) -> str:
        found: Any = args
        for name in STEP.findall(place["path"]):
            if not isinstance(found, Mapping) or name not in found:
                raise Invalid(f"concurrency_key names {place[0]}, and the args have no such value.")
            found = found[name]
        return str(found)

    rendered = PLACE.sub(value, template)
    if "{" in PLACE.sub("", template):
        raise Invalid(f"concurrency_key may name args as {{args[name]}}; {template!r} has other braces.")
    return rendered


def _short(key: str) -> str:
    return key if len(key) <= LONGEST_KEY else f"{key[:100]}…{sha256(key.encode()).hexdigest()[:32]}"
