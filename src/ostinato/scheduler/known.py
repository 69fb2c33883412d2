"""Which tasks there are: here, or in any worker of the last 30 days; and what those that we bring take."""

from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from typing import Any

from ostinato.clock import Clock
from ostinato.core import built_in
from ostinato.core.built_in import NOTHING_ALLOWED, Permits
from ostinato.core.errors import UnknownTask
from ostinato.core.model import Json
from ostinato.core.payload import decode
from ostinato.store.store import Store
from ostinato.task import Task
from ostinato.tasks import BUILT_IN


def no_task(_name: str) -> Task[..., Any] | None:
    """For a desk without an app."""
    return None


class KnownTasks:
    """Refuses names that nobody is known to run (most often they are typing mistakes), and args that cannot be run."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        here: Callable[[], Collection[str]] = tuple,
        own: Callable[[str], Task[..., Any] | None] = no_task,
        permits: Permits = NOTHING_ALLOWED,
    ) -> None:
        """`here`: the names that this process knows. `own`: a task of the user's, who may have replaced one of ours."""
        self._store, self._clock, self._here = store, clock, here
        self.own, self.permits = own, permits
        self._elsewhere: frozenset[str] = frozenset()

    def require(self, names: Collection[str]) -> None:
        """Every one of these is known somewhere."""
        strange = set(names) - set(self._here()) - BUILT_IN.keys() - self._elsewhere
        if strange:
            self._elsewhere = self._store.workers.known_tasks(self._clock.now())
            strange -= self._elsewhere
        for name in sorted(strange):
            raise UnknownTask(self._sentence(name))

    def everywhere(self) -> frozenset[str]:
        """Every name that somebody is known to run."""
        self._elsewhere = self._store.workers.known_tasks(self._clock.now())
        return frozenset({*self._here(), *BUILT_IN, *self._elsewhere})

    def is_built_in(self, name: str) -> bool:
        """Whether this name means what we brought."""
        return name in BUILT_IN and self.own(name) is None

    def check_args(self, name: str, args: Json, run_args: Sequence[str] = ()) -> None:
        """Raise Invalid if a built-in task cannot be run with these args, or may not open these to operators.

        The args of other tasks are checked by their functions.
        """
        if name in BUILT_IN and self.own(name) is None:
            given = decode(args)
            built_in.check(name, given, self.permits)
            built_in.described(name).check_open(given, run_args)

    def _sentence(self, name: str) -> str:
        close = get_close_matches(name, {*self._here(), *BUILT_IN, *self._elsewhere}, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        return (
            f"No process here, and no worker of the last 30 days, knows a task {name!r}.{hint}"
            " With allow_unknown it is accepted, and waits for a worker that knows it."
        )
