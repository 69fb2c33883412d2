"""What happened, told once: log lines, hooks, counts."""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from ostinato.config import Settings
from ostinato.core.model import Change, Live

Hook = Callable[[dict[str, Any]], None]


def configure_logging(settings: Settings) -> None:
    """For the commands only."""


class Hooks:
    """Plain functions that want to know; called on a thread of their own, in order, never in a run's way."""

    def on(self, kind: str) -> Callable[[Hook], Hook]:
        raise NotImplementedError

    def emit(self, kind: str, payload: Mapping[str, Any]) -> None: ...

    def drain(self, timeout: float) -> bool:
        """Wait until what was emitted has been told (worker stop, tests)."""
        raise NotImplementedError


class Counts:
    """Thread-safe counts by (what, which)."""

    def snapshot(self) -> dict[tuple[str, str], int]:
        raise NotImplementedError


class Telemetry:
    """To be called after the commit, in batches."""

    def __init__(self, settings: Settings, hooks: Hooks) -> None:
        self.counts = Counts()

    def starting(self, what: str, **fields: object) -> None: ...
    def stopping(self, why: str, **fields: object) -> None: ...
    def started(self, lives: Iterable[Live]) -> None:
        """Claimed and started."""

    def changed(self, changes: Iterable[Change]) -> None:
        """What fire, settle, sweep or a command came to: everything is derived from the Change."""

    def released(self, live: Live, why: str) -> None:
        """Interrupted or deferred."""

    def refused(self, live: Live) -> None:
        """A result that came too late."""

    def lease_lost(self, worker_id: UUID) -> None: ...
    def store_away(self, error: Exception) -> None: ...
    def store_back(self) -> None: ...
    def stuck(self, live: Live, since: timedelta) -> None: ...
    def unknown_task(self, task: str, queued: int) -> None: ...
    def clock_jumped(self, by: timedelta) -> None: ...
