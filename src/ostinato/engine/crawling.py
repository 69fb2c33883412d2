"""The worker's side of a crawl: its process hands in turns as JSON, and only here they become rows, under the fence."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from ostinato.clock import Clock
from ostinato.core.errors import LeaseLost
from ostinato.core.model import Json, Live
from ostinato.store.crawls import Begun, Crawls, Fetched, Found, Touched, Turn

REFUSED = "This run no longer holds its execution: nothing was saved."


@dataclass(frozen=True, slots=True)
class CrawlDesk:
    """Serves the crawls of one worker. It waits for the database."""

    crawls: Crawls
    clock: Clock

    def answer(self, live: Live, text: Json) -> Json:
        """What comes of a turn; LeaseLost when the run may write no more."""
        asked = json.loads(text)
        match asked["do"]:
            case "begin":
                told = self._begun(self.crawls.begin(live))
            case "turn":
                told = self._turned(live, asked)
            case _:
                told = {} if self.crawls.end(live) else None
        if told is None:
            raise LeaseLost(REFUSED)
        return json.dumps(told)

    def _begun(self, begun: Begun | None) -> dict[str, Any] | None:
        if begun is None:
            return None
        last = None if begun.last is None else [begun.last[0].isoformat(), begun.last[1]]
        return asdict(begun) | {"last": last}

    def _turned(self, live: Live, asked: dict[str, Any]) -> dict[str, Any] | None:
        turn = Turn(
            [Fetched(**each) for each in asked["fetched"]],
            [Touched(*each) for each in asked["touched"]],
            asked["done"],
            [Found(*each) for each in asked["found"]],
            json.dumps(asked["counters"]),
            asked["want"],
        )
        turned = self.crawls.turn(live, turn, self.clock.now())
        return None if turned is None else {"new": turned[0], "waiting": turned[1]}
