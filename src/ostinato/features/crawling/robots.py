"""Politeness: rules of robots.txt, and the gate of a crawl's requests."""

import asyncio
from dataclasses import dataclass
from typing import Final

from protego import Protego

from ostinato.core.errors import Unreachable
from ostinato.features.crawling.urls import canonical, host_of
from ostinato.features.providers.asked import Ask, AskedBudgets
from ostinato.outgoing import Bounds, Outgoing, RequestPermit

LARGEST_FILE: Final = 512 * 1024  # bytes read of robots.txt
LONGEST_DELAY: Final = 60.0  # seconds; with more, a crawl would never end
BOUNDS: Final = Bounds(begin=20.0, silence=20.0, total=60.0)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one host; without `parsed`, everything or nothing is allowed."""

    parsed: Protego | None = None
    trouble: str = ""  # the reason why robots.txt is unknown; then nothing is allowed

    def allows(self, url: str, agent: str) -> bool:
        if self.trouble:
            return False
        return self.parsed is None or bool(self.parsed.can_fetch(url, agent))

    def delay(self, agent: str) -> float:
        """Return the seconds between two requests that robots.txt asks for."""
        if self.parsed is None:
            return 0.0
        rate = self.parsed.request_rate(agent)
        by_rate = rate.seconds / rate.requests if rate is not None and rate.requests else 0.0
        return min(max(float(self.parsed.crawl_delay(agent) or 0.0), by_rate, 0.0), LONGEST_DELAY)

    def sitemaps(self, origin: str) -> list[str]:
        """Return the sitemaps that robots.txt names, or the usual URL."""
        named = [] if self.parsed is None else [canonical(url, origin + "/") for url in self.parsed.sitemaps]
        return [url for url in named if url] or [f"{origin}/sitemap.xml"]


class Robots:
    """The rules of all hosts of a crawl; each robots.txt is requested once."""

    def __init__(self, outgoing: Outgoing, agent: str, obey: bool) -> None:
        self._outgoing, self._agent, self._obey = outgoing, agent, obey
        self._known = dict[str, Rules]()
        self._turn = asyncio.Lock()

    async def of(self, url: str) -> Rules:
        """Return the rules for a URL."""
        origin = origin_of(url)
        async with self._turn:
            if origin not in self._known:
                self._known[origin] = await self._read(origin)
            return self._known[origin]

    async def _read(self, origin: str) -> Rules:
        rules = await self._fetched(origin)
        return rules if self._obey else Rules(rules.parsed and Protego.parse(_only_sitemaps(rules.parsed)))

    async def _fetched(self, origin: str) -> Rules:
        headers = {"User-Agent": self._agent}
        try:
            async with self._outgoing.request("GET", f"{origin}/robots.txt", headers=headers, bounds=BOUNDS) as reply:
                if reply.status >= 500 or reply.status == 429:
                    return Rules(trouble=f"The robots.txt of {host_of(origin + '/')} answered {reply.status}.")
                if not reply.good:
                    return Rules()  # no robots.txt: RFC 9309, 2.3.1.3
                text = b""
                while len(text) < LARGEST_FILE and (part := await reply.read(LARGEST_FILE - len(text))):
                    text += part
        except Unreachable as error:
            return Rules(trouble=f"The robots.txt of {host_of(origin + '/')} cannot be read: {error}")
        return Rules(Protego.parse(text.decode("utf-8", "replace")))


def origin_of(url: str) -> str:
    return "/".join(url.split("/", 3)[:3])


def _only_sitemaps(parsed: Protego) -> str:
    return "".join(f"Sitemap: {url}\n" for url in parsed.sitemaps)


# -- The gate of a crawl's requests: the budget of the host's provider, or else the turns that all crawls take


class PoliteGate:
    """Gate of a crawl. A host has the budget of its provider. Without one, all crawls take turns at the host, with a
    pause after each."""

    def __init__(self, ask: Ask, pause: float) -> None:
        """`pause`: seconds between two requests to a host."""
        self._ask, self._pause, self._budgets = ask, pause, AskedBudgets(ask)
        self._pauses = dict[str, float]()  # for hosts with longer pauses

    def slow_down(self, host: str, pause: float) -> None:
        """Set a longer pause for a host."""
        self._pauses[host] = max(pause, self._pauses.get(host, self._pause))

    async def admit(self, host: str, patience: float, within: float) -> RequestPermit | None:
        permit = await self._budgets.admit(host, patience, within)
        pause = self._pauses.get(host, self._pause)
        if permit is None and pause:
            await asyncio.sleep(await self._ask("crawling.take_turn", {"host": host, "pause": pause}))
        return permit

    async def close(self) -> None:
        await self._budgets.close()
