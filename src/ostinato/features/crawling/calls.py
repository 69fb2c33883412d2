"""Calls of a running crawl to its worker: its state, the storage of its turns, and its turn at a host."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any, Final

from ostinato.core.model import Live
from ostinato.features.crawling.rows import Crawls, CrawlTurn, Fetched, FoundUrl, Touched
from ostinato.store.kernel import Kernel, TaskCall
from ostinato.task import CallReply


def begin(kernel: Kernel, live: Live, _request: object) -> CallReply | None:
    """Return the state of the crawl, which an earlier attempt may have begun."""
    begun = kernel.part(Crawls).begin(live)
    if begun is None:
        return None
    last = None if begun.last is None else [begun.last[0].isoformat(), begun.last[1]]
    return CallReply(asdict(begun) | {"last": last})


def turn(kernel: Kernel, live: Live, request: Mapping[str, Any]) -> CallReply | None:
    """Store the pages and URLs since the last turn; return the next URLs."""
    turn = CrawlTurn(
        [Fetched(**each) for each in request["fetched"]],
        [Touched(*each) for each in request["touched"]],
        request["done"],
        [FoundUrl(*each) for each in request["found"]],
        json.dumps(request["counters"]),
        request["want"],
    )
    turned = kernel.part(Crawls).turn(live, turn, kernel.clock.now())
    return None if turned is None else CallReply({"new": turned[0], "waiting": turned[1]}, turn.checkpoint)


def end(kernel: Kernel, live: Live, _request: object) -> CallReply | None:
    """Delete the URLs of the crawl, which is over."""
    return CallReply(None) if kernel.part(Crawls).end(live) else None


def take_turn(kernel: Kernel, _live: Live, request: Mapping[str, Any]) -> CallReply:
    """Take the next turn at a host; return the seconds to wait for it. Nothing is written for the run."""
    now = kernel.clock.now()
    at = kernel.part(Crawls).take_turn(request["host"], now, timedelta(seconds=request["pause"]))
    return CallReply((at - now).total_seconds())


CALLS: Final = {each.__name__: TaskCall(each, repeats=True) for each in (begin, turn, end, take_turn)}
