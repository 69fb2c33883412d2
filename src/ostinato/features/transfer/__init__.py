"""Jobs out and in: export and import as lines of JSON, import of a crontab, conversion of cron schedules."""

from typing import Final

from ostinato.feature import Feature

FEATURE: Final = Feature(
    package=__name__,
    commands={"import": "Import: jobs (from `export`), crontab."},
)
