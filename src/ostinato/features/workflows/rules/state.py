"""Progress of a workflow's run: the checkpoint of its live row, handed on to its next attempt.

Of the steps' results it holds only the parts that other nodes refer to; history has the results themselves.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ostinato.core.payload import decode, encode


class StepState(StrEnum):
    """The state of a node. A node without one waits, or is live."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"  # its condition was false, or all steps before it were skipped
    BLOCKED = "blocked"  # a step before it did not complete


@dataclass(slots=True)
class RunState:
    """One run under way. A rule changes only the copy that it has read."""

    workflow: int
    version: int
    name: str = ""
    states: dict[str, StepState] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)  # by the text of the reference
    attempts: dict[str, int] = field(default_factory=dict)  # the last one of each step
    errors: dict[str, str] = field(default_factory=dict)  # why steps failed, for the run's own message
    timed_out: bool = False  # its steps were asked to stop

    @classmethod
    def read(cls, text: str | None) -> "RunState | None":
        """Read the state from a checkpoint; None for a run that has not begun, or begins anew."""
        kept = {} if text is None else decode(text, "checkpoint")
        if "workflow" not in kept:
            return None
        states = {name: StepState(state) for name, state in kept.pop("states", {}).items()}
        return cls(states=states, **kept)

    def write(self) -> str:
        kept: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({name: each for name, each in kept.items() if each}, ensure_ascii=False)


def attempts_of(text: str | None) -> Mapping[str, int]:
    """Return the last attempt of each step, also of a run that begins anew: numbers never repeat."""
    return {} if text is None else decode(text, "checkpoint").get("attempts", {})


def begun_anew(text: str | None) -> str | None:
    """Return the checkpoint of a run that begins again from the start."""
    attempts = attempts_of(text)
    return encode({"attempts": attempts}, "checkpoint") if attempts else None
