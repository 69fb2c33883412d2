"""Features: each folder is one, and registers itself by the value `FEATURE` (see ostinato/feature.py)."""

from typing import Final

NAMES: Final = (
    "command",
    "crawling",
    "http",
    "notifications",
    "providers",
    "python",
    "rq",
    "schedules_api",
    "sources",
    "templates",
    "transfer",
    "workflows",
)
