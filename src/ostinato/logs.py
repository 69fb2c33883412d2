"""Log lines of Ostinato for other log libraries."""

from collections.abc import MutableMapping
from typing import Any

from ostinato.core.payload import LogMessage


def structlog_processor(logger: object, method: str, event_dict: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Unpack a line of Ostinato for structlog: its event, and each of its fields under its own name.

    Put it first into `foreign_pre_chain` of `structlog.stdlib.ProcessorFormatter`. Other lines pass as they are, and a
    field never replaces a name that the line has already.
    """
    said = getattr(event_dict.get("_record"), "msg", None)
    line = said if isinstance(said, LogMessage) else event_dict.get("event")
    if isinstance(line, LogMessage):
        for name, value in line.fields.items():
            event_dict.setdefault(name, value)
        event_dict["event"] = line.event
    return event_dict
