"""Metrics of notifications."""

from typing import Final

# The kind of count, the name of the metric, its label, and its description.
COUNTED: Final = (
    ("notice", "ostinato_notices", "how", "Attempts of this process to deliver notices, by result."),
    ("heartbeat", "ostinato_heartbeats", "how", "Calls of this process to the external monitor, by result."),
)
