"""The scope of a crawl: the URLs it visits.

Its patterns are those of robots.txt: a beginning, with `*` for anything and `$` for the end. `/blog/` is all that
begins so, `/*.pdf$` all that ends so. One that begins with http is compared with the whole URL, others with path and
query. They are no regular expressions: one from a user could run for ever.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ostinato.features.crawling.args import CrawlArgs
from ostinato.features.crawling.urls import canonical, host_of, path_of

MOST_HOPS = 5  # redirects, one after the other


@dataclass(frozen=True, slots=True)
class Scope:
    """The hosts to visit, and the patterns of their URLs."""

    hosts: frozenset[str]
    start: frozenset[str]
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_depth: int = 10

    @classmethod
    def of(cls, args: CrawlArgs, adopted: Iterable[str] = ()) -> "Scope":
        """Make the scope of a crawl; `adopted`: hosts that the start URLs redirected to."""
        start = frozenset(url for url in map(canonical, (args.url, *args.start_urls)) if url)
        hosts = frozenset({*map(host_of, start), *args.hosts, *adopted})
        return cls(hosts, start, args.allow, args.deny, args.max_depth)

    def with_host(self, host: str) -> "Scope":
        return Scope(self.hosts | {host}, self.start, self.allow, self.deny, self.max_depth)

    def wants(self, url: str, depth: int) -> bool:
        """Return True if a canonical URL is to be visited. The start URLs always are."""
        if url in self.start:
            return True
        if depth > self.max_depth or host_of(url) not in self.hosts:
            return False
        path = path_of(url)
        if any(fits(pattern, url, path) for pattern in self.deny):
            return False
        return not self.allow or any(fits(pattern, url, path) for pattern in self.allow)


def fits(pattern: str, url: str, path: str) -> bool:
    """Return True if a pattern matches a URL (or the part of it after the host)."""
    return _begins(pattern, url if pattern.startswith(("http:", "https:")) else path)


def _begins(pattern: str, text: str) -> bool:
    anchored = pattern.endswith("$")
    first, *others = pattern.removesuffix("$").split("*")
    if not text.startswith(first):
        return False
    if anchored and not others:
        return text == first
    at = len(first)
    for part in others[:-1] if anchored else others:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return not anchored or (text.endswith(others[-1]) and len(text) - len(others[-1]) >= at)
