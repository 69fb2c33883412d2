"""The arguments of `crawl`."""

from typing import Final

from ostinato.core.builtin.crawl import BUILT_IN

BUILT_INS: Final = (BUILT_IN,)
