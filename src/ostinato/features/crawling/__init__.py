"""The task `crawl`."""

from typing import Final

from ostinato.feature import Feature

FEATURE: Final = Feature(package=__name__, needs=("scrapy",), tasks=("crawl",))
