"""Providers: request budgets of hosts, shared by all workers.

A budget is `limit` requests in any stretch of `period`. A request counts from the moment of its permit until one period
after its answer has begun: only then is it certain that the host has seen the request. So whatever happens in between
(slow networks, crashes, clocks that differ a little), the host never sees more than `limit` requests in any stretch of
that length, by its own clock.

Permits are reserved in batches; a batch of a small budget is one permit. A batch with unanswered requests counts until
`until`, the longest time that they could take, plus a period. A worker that dies blocks its batch no longer than that.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final

from ostinato.core.auth import Bearer, InHeader, InQuery, RequestKey, parse_auth
from ostinato.core.errors import Invalid
from ostinato.core.times import format_duration, parse_duration

DOMAIN: Final = re.compile(r"(?!-)[a-z0-9-]{1,63}(\.[a-z0-9_-]{1,63})*|[0-9a-f]*:[0-9a-f:.]+")
LONGEST_DOMAIN: Final = 253
MOST_REQUESTS: Final = 100_000  # requests in a period
PERIODS: Final = (timedelta(milliseconds=100), timedelta(days=31))
SHARE: Final = 50  # a batch is at most this part of a budget
LARGEST_BATCH: Final = 20
MARGIN: Final = timedelta(milliseconds=20)  # by which the clocks of two processes may differ
KNOWN_AFTER: Final = 2.0  # seconds for which a process trusts the list of providers that it has read
KNOWN_WITHIN: Final = timedelta(seconds=KNOWN_AFTER + 1)  # then every process knows a change
LEAST_WAIT: Final = timedelta(milliseconds=50)


@dataclass(frozen=True, slots=True)
class Provider:
    """A number of requests to a domain, and to all domains below it, in any stretch of this length."""

    domain: str
    limit: int
    period: timedelta
    key: RequestKey | None = None  # sent with each request

    @property
    def budget(self) -> str:
        return f"{self.limit} per {format_duration(self.period)}"


@dataclass(frozen=True, slots=True)
class Passage:
    """A batch of permits: their number, from when until when they count, and whether all requests were answered."""

    count: int
    taken_at: datetime
    until: datetime
    answered: bool


def parse_provider(given: object) -> Provider:
    """Read a provider; Invalid names the wrong field."""
    if not isinstance(given, Mapping):
        raise Invalid("A provider must be an object with domain, limit and period.")
    strange = [str(name) for name in given if name not in ("domain", "limit", "period", "key")]
    if strange:
        raise Invalid(f"A provider has no field {strange[0][:100]!r}; it has domain, limit, period and key.")
    key = given.get("key")
    return make_provider(
        given.get("domain"), given.get("limit"), given.get("period"), None if key is None else parse_key(key)
    )


def make_provider(domain: object, limit: object, period: object, key: RequestKey | None = None) -> Provider:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_REQUESTS:
        raise Invalid(f"limit must be a whole number from 1 to {MOST_REQUESTS}.")
    if not isinstance(period, str | int | float | timedelta) or isinstance(period, bool):
        raise Invalid("period must be a duration, such as 1s, 1m or 1h.")
    try:
        length = parse_duration(period)
    except Invalid as error:
        raise Invalid(f"period: {error}") from None
    if not PERIODS[0] <= length <= PERIODS[1]:
        raise Invalid("period must be from 0.1 s to 31 days.")
    return Provider(check_domain(domain), limit, length, key)


def check_domain(given: object) -> str:
    """Return a domain as it is compared: lower case, no dot at the end."""
    domain = given.lower().rstrip(".") if isinstance(given, str) else ""
    if len(domain) > LONGEST_DOMAIN or not DOMAIN.fullmatch(domain):
        raise Invalid("domain must be the name of a host, such as api.example.org, without scheme or port.")
    return domain


def provider_of(host: str, providers: Mapping[str, Provider]) -> Provider | None:
    """Return the provider of a host: its own, or that of the nearest domain above it."""
    name = host
    while name:
        if name in providers:
            return providers[name]
        if name.replace(".", "").isdigit() or ":" in name:
            return None  # an address has nothing above it
        name = name.partition(".")[2]
    return None


def batch_of(limit: int) -> int:
    """Return the number of permits to reserve at once: few of a small budget, since some stay unused."""
    return max(1, min(limit // SHARE, LARGEST_BATCH))


def counts_until(answered_at: datetime, period: timedelta) -> datetime:
    return answered_at + period + MARGIN


def opening(limit: int, period: timedelta, passages: Sequence[Passage], now: datetime) -> datetime:
    """Return the time of the next permit. Requests without an answer count as answered soon."""
    used = sum(passage.count for passage in passages)
    for end, count in sorted(_ends(passages, period)):
        used -= count
        if used < limit:
            return max(end, now + LEAST_WAIT)
    return now + LEAST_WAIT


def _ends(passages: Iterable[Passage], period: timedelta) -> list[tuple[datetime, int]]:
    return [
        (each.until if each.answered else min(each.until, counts_until(each.taken_at, period)), each.count)
        for each in passages
    ]


def parse_key(given: object) -> RequestKey:
    """Read the key that each request to a provider carries."""
    key = parse_auth(given, "key")
    if not isinstance(key, Bearer | InHeader | InQuery):
        raise Invalid("key.type must be header, query or bearer.")
    return key


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """A provider, its author, the used part of its budget, and its waiting executions."""

    provider: Provider
    saved_at: datetime
    saved_by: str
    used: int = 0
    waiting: int = 0

    @property
    def left(self) -> int:
        return max(self.provider.limit - self.used, 0)


KINDS: Final[Mapping[str, type[RequestKey]]] = {"bearer": Bearer, "header": InHeader, "query": InQuery}


def key_written(key: RequestKey) -> dict[str, str]:
    """Return a key as people write it: where its secret is stored."""
    (kind,) = (name for name, each in KINDS.items() if isinstance(key, each))
    return {"type": kind, **asdict(key)}
