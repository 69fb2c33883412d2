"""Bounds of the texts and times that people write."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from ostinato.core.errors import Invalid

QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}")
BAD_QUEUE_NAME: Final = "The queue name {name!r} cannot be used: use letters, digits and . _ : -, at most 100."
LONGEST_BY_FIELD: Final = {
    "task": 200,
    "key": 200,
    "name": 200,
    "owner": 200,
    "app": 100,
    "description": 10_000,
}
MOST_TAGS: Final = 50
LONGEST_TAG: Final = 100
LONGEST_WAIT: Final = timedelta(days=3660)
# An earlier time could push a wall time off the calendar.
EARLIEST: Final = datetime(1900, 1, 1, tzinfo=UTC)


def check_queue_name(name: str) -> None:
    if not QUEUE_NAME.fullmatch(name):
        raise Invalid(BAD_QUEUE_NAME.format(name=name))


def is_storable(text: str) -> bool:
    """Return True if both databases can store a text."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
