"""`crawl`: visit a site and store its pages, with Scrapy, in a process of its own.

    ledger.py    URLs to visit and visited: the worker stores them, in turns, under the fence of the run
    calls.py     the worker's side of it
    robots.py    rules of robots.txt, and the gate of its requests: budgets of providers, turns at a host
    extract.py   extraction of a page's title, text, links and columns; the URLs in a sitemap
    spider.py    the spider, from one page to the next; it downloads through the HTTP client `outgoing`
    visiting.py  one crawl, from its first URL to its result

None of these but `calls` is imported before a crawl runs; Scrapy comes with the extra `[crawl]`.
"""

from typing import Any, Final

from ostinato.core.policy import Isolation
from ostinato.task import Context, Task
from ostinato.task.signals import hide_frames_of

hide_frames_of(__file__)


async def crawl(ctx: Context, **given: Any) -> dict[str, Any]:
    """Visit a site and store its pages."""
    from ostinato.features.crawling.visiting import visit

    return await visit(ctx, given)


TASKS: Final = {"crawl": Task(crawl, isolation=Isolation.PROCESS)}
