"""The task `command`: run a program."""

from typing import Final

from ostinato.feature import Feature

FEATURE: Final = Feature(
    package=__name__,
    tasks=("command",),
    secrets={"command": ""},
)
