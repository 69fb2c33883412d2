"""Calls of tasks in processes of their own to their worker: permits for their requests."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from ostinato.core.model import Live
from ostinato.features.providers.rows import BudgetSpending, Providers
from ostinato.features.providers.rules import key_written, provider_of
from ostinato.store.kernel import Kernel, TaskCall
from ostinato.task import CallReply

LONGER: Final = timedelta(seconds=5)  # a permit is held this long beyond the longest request


def admit(kernel: Kernel, _live: Live, request: Mapping[str, Any]) -> CallReply:
    """Take a permit for one request to a host, or return the time when one may be free; {} without a budget.

    `over` are the finished requests. Nothing is written for the run: a request that a lost run still sends counts too.
    """
    providers, now, host = kernel.part(Providers), kernel.clock.now(), request["host"]
    over = [BudgetSpending(UUID(each), domain, 1, now) for each, domain in request["over"]]
    known = {each.domain: each for each in providers.all()} if host else {}
    provider = provider_of(host, known) if known else None
    if provider is None:
        providers.answer(over)
        return CallReply({})
    taken = providers.take(provider.domain, 1, now, timedelta(seconds=request["within"]) + LONGER, over)
    if taken is None:
        return CallReply({})
    if taken.count:
        key = None if provider.key is None else key_written(provider.key)
        return CallReply({"permit": [taken.id.hex, provider.domain, key]})
    opens_at = taken.opens_at or now
    opens_in = (opens_at - now).total_seconds()
    return CallReply({"opens_at": opens_at.isoformat(), "opens_in": opens_in, "domain": provider.domain})


CALLS: Final = {"admit": TaskCall(admit, repeats=True)}
