"""Requests at work: a few of each credential at once; the others wait in their order, and too many are refused.

Only work counts. A body that is still on its way takes no place, nor does an answer that is being sent.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from ostinato.core.errors import TooManyRequests

AT_WORK: Final = 8
WAITING: Final = 64  # of one credential
WAITING_UNNAMED: Final = 992  # of all without a credential together: with those at work 1,000


@dataclass(slots=True)
class RequestQueue:
    """Requests of one credential; `places` admits them to work in their order."""

    places: asyncio.Semaphore
    requests: int = 0


class Workload:
    """Requests of all credentials. To be used on one loop."""

    def __init__(self, waiting: int = WAITING, at_work: int = AT_WORK) -> None:
        self._waiting, self._at_work = waiting, at_work
        self._queues: dict[str, RequestQueue] = {}

    async def place(self, credential: str) -> "WorkPlace":
        """Wait for a place at work; TooManyRequests if too many wait already.

        All requests without a credential share one long queue, so that a stranger cannot lock out the log-in.
        """
        waiting = self._waiting if credential else WAITING_UNNAMED
        queue = self._queues.setdefault(credential, RequestQueue(asyncio.Semaphore(self._at_work)))
        if queue.requests >= self._at_work + waiting:
            raise TooManyRequests(
                f"{self._at_work} requests are at work and {waiting} wait: send fewer at once."
            )
        queue.requests += 1
        try:
            await queue.places.acquire()
        except BaseException:
            self._leave(credential, queue)
            raise
        return WorkPlace(partial(self._end, credential, queue))

    def _end(self, credential: str, queue: RequestQueue) -> None:
        queue.places.release()
        self._leave(credential, queue)

    def _leave(self, credential: str, queue: RequestQueue) -> None:
        queue.requests -= 1
        if not queue.requests:
            del self._queues[credential]


class WorkPlace:
    """Right to be at work, until it is given back."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end: Callable[[], None] | None = end

    def give_back(self) -> None:
        """Let the next request to work. The second call changes nothing."""
        end, self._end = self._end, None
        if end is not None:
            end()
