"""Jobs out and in: export and import as lines of JSON, imports from other systems, conversion of cron schedules."""

from typing import Final

from ostinato.feature import Feature

FEATURE: Final = Feature(
    package=__name__,
    uses=("sources",),
    tables=("imports", "imported"),
    commands={"import": "Import: jobs (from `export`), crontab, and other systems."},
)
