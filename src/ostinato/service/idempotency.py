"""Idempotent requests: a repeat is not carried out, and gets the answer of the first."""

from ostinato.clock import Clock
from ostinato.core.read_models import Answered, RepeatableRequest
from ostinato.store.store import Store


class Repeats:
    """The stored answers to requests with an idempotency key."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def begin(self, asked: RepeatableRequest) -> Answered | None:
        """Return the answer to a repeat; None for a new request: carry it out, then `finish` or `drop`."""
        return self._store.answers.begin(asked, self._clock.now())

    def finish(self, asked: RepeatableRequest, answered: Answered) -> None:
        self._store.answers.finish(asked, answered)

    def drop(self, asked: RepeatableRequest) -> None:
        self._store.answers.drop(asked)
