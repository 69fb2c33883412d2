"""Ostinato: a durable scheduler for recurring work. Every due time becomes a run or a recorded skip.

A name is imported when it is first used, so that a program pays only for what it uses.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ostinato.app import Ostinato
    from ostinato.core.errors import Conflict, Invalid, NotFound, OstinatoError
    from ostinato.core.policy import Backoff
    from ostinato.core.times import Window
    from ostinato.handle import Handle, RunFailed
    from ostinato.task import Context, Defer, GiveUp, RetryLater

__all__ = [
    "Backoff",
    "Conflict",
    "Context",
    "Defer",
    "GiveUp",
    "Handle",
    "Invalid",
    "NotFound",
    "Ostinato",
    "OstinatoError",
    "RetryLater",
    "RunFailed",
    "Window",
]

MODULES: Final = {
    "Ostinato": "app",
    **dict.fromkeys(("Conflict", "Invalid", "NotFound", "OstinatoError"), "core.errors"),
    "Backoff": "core.policy",
    "Window": "core.times",
    **dict.fromkeys(("Handle", "RunFailed"), "handle"),
    **dict.fromkeys(("Context", "Defer", "GiveUp", "RetryLater"), "task"),
}


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"ostinato.{MODULES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]
