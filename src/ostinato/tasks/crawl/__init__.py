"""`crawl`: visit a site and keep its pages, with Scrapy, in a process of its own.

    ledger.py    what is to be visited and what was: kept by the worker, in turns, under the fence of the run
    download.py  how a page is fetched: Scrapy asks, and the one safe way out over HTTP answers
    budgets.py   the gate of its requests: the worker asks the budgets of providers
    robots.py    what a host asks of crawlers
    extract.py   what is kept of a page
    sitemaps.py  the URLs that a sitemap names
    spider.py    the spider: from one page to the next
    visiting.py  one crawl from its first URL to its result

Nothing of it is imported before a crawl runs; Scrapy comes with the extra `[crawl]`.
"""

from typing import Any

from ostinato.core.policy import Isolation
from ostinato.task import Context, Task
from ostinato.task.outcomes import hide_frames_of

hide_frames_of(__file__)


async def crawl(ctx: Context, **given: Any) -> dict[str, Any]:
    """Visit a site and keep its pages."""
    from ostinato.tasks.crawl.visiting import visit

    return await visit(ctx, given)


TASK = Task(crawl, isolation=Isolation.PROCESS)
