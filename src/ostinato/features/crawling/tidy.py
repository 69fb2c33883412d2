"""Removal of old rows of crawls."""

from datetime import datetime

from ostinato.features.crawling.rows import Crawls
from ostinato.store.kernel import Kernel


def tidy(kernel: Kernel, now: datetime) -> None:
    """Delete hosts that received no request for a while."""
    kernel.part(Crawls).forget_hosts(now)
