"""The worker's side of a crawl: its process sends turns as JSON, and this module writes them as rows under the
fence."""

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.errors import LeaseLost
from ostinato.core.model import Json, Live
from ostinato.core.providers import provider_of
from ostinato.store.crawls import Crawls, CrawlStart, CrawlTurn, Fetched, FoundUrl, Touched
from ostinato.store.providers import BudgetSpending, Providers, key_written

LONGER: Final = timedelta(seconds=5)  # a permit is held this long beyond the longest request
REFUSED: Final = "This run no longer holds its execution: nothing was saved."


@dataclass(frozen=True, slots=True)
class CrawlCalls:
    """The crawls of one worker. Its calls wait for the database."""

    crawls: Crawls
    providers: Providers
    clock: Clock

    def answer(self, live: Live, text: Json) -> Json:
        """Answer a turn of a crawl; raise LeaseLost if the run may no longer write."""
        asked = json.loads(text)
        match asked["do"]:
            case "begin":
                result = self._begun(self.crawls.begin(live))
            case "turn":
                result = self._turned(live, asked)
            case "admit":
                result = self._admitted(asked)
            case _:
                result = {} if self.crawls.end(live) else None
        if result is None:
            raise LeaseLost(REFUSED)
        return json.dumps(result)

    def _begun(self, begun: CrawlStart | None) -> dict[str, Any] | None:
        if begun is None:
            return None
        last = None if begun.last is None else [begun.last[0].isoformat(), begun.last[1]]
        return asdict(begun) | {"last": last}

    def _admitted(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return a permit for one request, or the time when one may be free; without a budget, the wait for the host's
        turn."""
        now = self.clock.now()
        over = [BudgetSpending(UUID(each), domain, 1, now) for each, domain in asked["over"]]
        known = {each.domain: each for each in self.providers.all()} if asked["host"] else {}
        provider = provider_of(asked["host"], known) if known else None
        if provider is None:
            self.providers.answer(over)
            return self._turn_at(asked["host"], asked["pause"], now)
        hold = timedelta(seconds=asked["within"]) + LONGER
        taken = self.providers.take(provider.domain, 1, now, hold, over)
        if taken is None:
            return {}
        if taken.count:
            key = None if provider.key is None else key_written(provider.key)
            return {"leave": [taken.id.hex, provider.domain, key]}
        opens_at = taken.opens_at or now
        return {
            "opens_at": opens_at.isoformat(),
            "opens_in": (opens_at - now).total_seconds(),
            "domain": provider.domain,
        }

    def _turn_at(self, host: str | None, pause: float, now: datetime) -> dict[str, Any]:
        if not host or not pause:
            return {}
        turn = self.crawls.take_turn(host, now, timedelta(seconds=pause))
        return {"wait": (turn - now).total_seconds()}

    def _turned(self, live: Live, asked: dict[str, Any]) -> dict[str, Any] | None:
        turn = CrawlTurn(
            [Fetched(**each) for each in asked["fetched"]],
            [Touched(*each) for each in asked["touched"]],
            asked["done"],
            [FoundUrl(*each) for each in asked["found"]],
            json.dumps(asked["counters"]),
            asked["want"],
        )
        turned = self.crawls.turn(live, turn, self.clock.now())
        return None if turned is None else {"new": turned[0], "waiting": turned[1]}
