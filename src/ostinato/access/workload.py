"""Limit of concurrent requests: a few of each credential at once; others wait in order, too many are refused.

Only work counts: receiving a body and sending an answer need no place.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from ostinato.core.errors import TooManyRequests

AT_WORK: Final = 8
WAITING: Final = 64  # requests of one credential
WAITING_UNNAMED: Final = 992  # all requests without a credential together: 1,000 with the running ones


@dataclass(slots=True)
class RequestQueue:
    """Requests of one credential; `places` admits them in order."""

    places: asyncio.Semaphore
    requests: int = 0


class Workload:
    """Requests of all credentials. Use it on one event loop."""

    def __init__(self, waiting: int = WAITING, at_work: int = AT_WORK) -> None:
        self._waiting, self._at_work = waiting, at_work
        self._queues: dict[str, RequestQueue] = {}

    async def place(self, credential: str) -> "WorkPlace":
        """Wait for a place; raise TooManyRequests if too many requests wait already.

        Requests without a credential share one long queue, so that a stranger cannot block the log-in.
        """
        waiting = self._waiting if credential else WAITING_UNNAMED
        queue = self._queues.setdefault(credential, RequestQueue(asyncio.Semaphore(self._at_work)))
        if queue.requests >= self._at_work + waiting:
            raise TooManyRequests(f"{self._at_work} requests run and {waiting} wait. Send fewer at once.")
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
    """Permission for a request to run, until it is given back."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end: Callable[[], None] | None = end

    def give_back(self) -> None:
        """Let the next request run. A second call changes nothing."""
        end, self._end = self._end, None
        if end is not None:
            end()
