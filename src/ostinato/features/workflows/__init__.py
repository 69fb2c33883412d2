"""The task `workflow`."""

from typing import Final

from ostinato.feature import Feature

FEATURE: Final = Feature(package=__name__, tasks=("workflow",))
