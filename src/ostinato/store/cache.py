"""Cached answers of slow queries.

Counters of ten thousand jobs are added up in milliseconds, those of a million finished run-once jobs in a second or
more. A dashboard on such a database asks every few seconds. So an answer is cached for ten times as long as it took,
and watching costs at most a tenth of one connection. Answers about fewer jobs are always new.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

T = TypeVar("T")

MANY: Final = 20_000  # jobs
CACHED_TIMES_AS_LONG: Final = 10


@dataclass(frozen=True, slots=True)
class _Answer:
    value: Any
    until: float


class AnswerCache:
    """The cached answers of one process."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._answers: dict[Hashable, _Answer] = {}

    def holds(self, question: Hashable) -> bool:
        """Return True if an answer is cached; it may be old."""
        return question in self._answers

    def get(self, question: Hashable, ask: Callable[[], tuple[T, int]]) -> T:
        """Return the cached answer, or call `ask`, which returns the answer and the number of jobs it read."""
        cached = self._answers.get(question)
        begun = self._monotonic()
        if cached is not None and begun < cached.until:
            return cached.value  # type: ignore[no-any-return]
        value, jobs = ask()
        now = self._monotonic()
        if jobs > MANY:
            self._answers[question] = _Answer(value, now + CACHED_TIMES_AS_LONG * (now - begun))
        return value
