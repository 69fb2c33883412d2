"""What a run cost, and how it stopped when it was asked to."""

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final


class Stopped(StrEnum):
    """How a run that was asked to stop came to its end."""

    COOPERATIVE = "cooperative"  # a thread: its task looked at `ctx.cancelled`, or was done anyway
    ASYNC = "async"  # on the loop: by a CancelledError
    TERMINATED = "terminated"  # a process: by SIGTERM, within the grace
    KILLED = "killed"  # a process: by SIGKILL


@dataclass(frozen=True, slots=True)
class Account:
    """What is known of a run beside its outcome; None where nobody can say."""

    cpu_ms: int | None = None
    memory_mb: float | None = None  # the highest of any one process of the run
    stopped: Stopped | None = None
    exit_code: int | None = None  # of a process that ended by itself
    items_crawled: int | None = None  # records that its task has seen, if it counts them
    items_indexed: int | None = None  # those of them that were new

    def to_json(self) -> str | None:
        """As text, and None when there is nothing to tell."""
        return account_text(
            self.cpu_ms, self.memory_mb, self.stopped, self.exit_code, self.items_crawled, self.items_indexed
        )

    @staticmethod
    def from_json(text: str | None) -> "Account":
        return NOTHING if text is None else _account_of(text)


NOTHING: Final = Account()


@lru_cache(1024)
def account_text(
    cpu_ms: int | None,
    memory_mb: float | None = None,
    stopped: Stopped | None = None,
    exit_code: int | None = None,
    items_crawled: int | None = None,
    items_indexed: int | None = None,
) -> str | None:
    """An Account as text; most are alike, so that they are looked up rather than written."""
    known = {
        "cpu_ms": cpu_ms, "memory_mb": memory_mb, "stopped": stopped, "exit_code": exit_code,
        "items_crawled": items_crawled, "items_indexed": items_indexed,
    }  # fmt: skip
    told = {name: value for name, value in known.items() if value is not None}
    return json.dumps(told, separators=(",", ":")) if told else None


@lru_cache(1024)
def _account_of(text: str) -> Account:
    raw: dict[str, Any] = json.loads(text)
    stopped = raw.get("stopped")
    return Account(
        raw.get("cpu_ms"),
        raw.get("memory_mb"),
        None if stopped is None else Stopped(stopped),
        raw.get("exit_code"),
        raw.get("items_crawled"),
        raw.get("items_indexed"),
    )
