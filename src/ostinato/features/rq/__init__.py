"""RQ as the engine: RQ's workers run what is due. They call the functions of ostinato/rq.py, which finds the app."""

from typing import Final

from ostinato.feature import Feature

FEATURE: Final = Feature(package=__name__, extra="rq", needs=("rq", "redis"))
