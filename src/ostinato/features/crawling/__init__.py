"""Crawling: the task `crawl`, and the search of the pages that it finds."""

from typing import Final

from ostinato.feature import Feature

FEATURE: Final = Feature(
    package=__name__,
    uses=("providers",),
    extra="crawl",
    needs=("scrapy", "httpx2"),
    tables=("pages", "crawl_urls", "crawl_hosts"),
    tasks=("crawl",),
    commands={"page": "Crawled pages: list, search, show."},
    menu=((60, "/pages", "Pages"),),
)
