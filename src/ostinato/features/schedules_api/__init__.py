"""The schedules API of seed 001: repeating jobs that run workflows, in its words."""

from typing import Final

from ostinato.feature import Feature

FEATURE: Final = Feature(package=__name__, uses=("workflows",))
