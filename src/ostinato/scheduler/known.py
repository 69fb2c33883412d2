"""Which tasks there are: here, or in any worker of the last 30 days."""

from collections.abc import Callable, Collection
from difflib import get_close_matches

from ostinato.clock import Clock
from ostinato.core.errors import UnknownTask
from ostinato.store.store import Store
from ostinato.tasks import BUILT_IN


class KnownTasks:
    """Refuses names that nobody is known to run: most often they are typing mistakes."""

    def __init__(self, store: Store, clock: Clock, here: Callable[[], Collection[str]]) -> None:
        self._store, self._clock, self._here = store, clock, here
        self._elsewhere: frozenset[str] = frozenset()

    def require(self, names: Collection[str]) -> None:
        """Every one of these is known somewhere."""
        strange = set(names) - set(self._here()) - BUILT_IN.keys() - self._elsewhere
        if strange:
            self._elsewhere = self._store.workers.known_tasks(self._clock.now())
            strange -= self._elsewhere
        for name in sorted(strange):
            raise UnknownTask(self._sentence(name))

    def _sentence(self, name: str) -> str:
        close = get_close_matches(name, {*self._here(), *BUILT_IN, *self._elsewhere}, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        return (
            f"No process here, and no worker of the last 30 days, knows a task {name!r}.{hint}"
            " With allow_unknown it is accepted, and waits for a worker that knows it."
        )
