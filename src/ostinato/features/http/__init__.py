"""The task `http`: call a URL."""

from typing import Final

from ostinato.feature import Feature

FEATURE: Final = Feature(
    package=__name__,
    tasks=("http",),
    extra="sources",
    needs=("httpx2",),
    secrets={"http": ""},
)
