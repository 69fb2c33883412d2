"""Providers: request budgets of hosts, shared by all workers."""

from typing import Final

from ostinato.feature import Feature

FEATURE: Final = Feature(
    package=__name__,
    tables=("providers", "passages"),
    commands={"provider": "Providers (request budgets): apply, list, show, delete."},
    menu=((90, "/providers", "Providers"),),
)
