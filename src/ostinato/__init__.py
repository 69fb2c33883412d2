"""Ostinato: a durable scheduler for recurring work. Every due time becomes a run or a recorded skip."""

from ostinato.app import Handle, Ostinato
from ostinato.core.errors import OstinatoError
from ostinato.core.window import Window
from ostinato.task import Context, Defer, GiveUp, RetryLater

__all__ = ["Context", "Defer", "GiveUp", "Handle", "Ostinato", "OstinatoError", "RetryLater", "Window"]
