"""Notifications: notices about jobs to webhooks, and a heartbeat to an outside monitor."""

from typing import Final

from ostinato.feature import Duty, Feature

FEATURE: Final = Feature(
    package=__name__,
    extra="sources",
    needs=("httpx2",),
    tables=("hooks", "outbox"),
    commands={"hook": "Webhooks: add, list, show, test, delete."},
    events={"hook.*": "webhooks"},
    duties=(Duty("notifier", every=1.0), Duty("heartbeat", every=60.0, setting="heartbeat_url")),
)
