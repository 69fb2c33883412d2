"""Job templates: jobs with parameters, filled in when they are used."""

from typing import Final

from ostinato.feature import Feature

FEATURE: Final = Feature(
    package=__name__,
    tables=("templates",),
    commands={"template": "Job templates: list, show, apply, use, delete."},
    menu=((80, "/templates", "Templates"),),
)
