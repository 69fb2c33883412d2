"""Sources: HTTP APIs that are fetched into tables, on schedule. A source is a job with the task `fetch`."""

from typing import Final

from ostinato.feature import Feature

FEATURE: Final = Feature(
    package=__name__,
    tables=("source_states",),
    tasks=("fetch",),
    secrets={"fetch": "source"},
    extra="sources",
    needs=("httpx2", "ijson", "jmespath"),
    commands={"source": "Sources (HTTP APIs): apply, list, show, run, delete, test."},
    menu=((50, "/sources", "Sources"),),
)
