"""Ostinato: a durable scheduler for recurring work. Every due time becomes a run or a recorded skip."""

from ostinato.app import Handle, Ostinato, RunFailed
from ostinato.core.errors import Conflict, Invalid, NotFound, OstinatoError
from ostinato.core.retry import Backoff
from ostinato.core.window import Window
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
