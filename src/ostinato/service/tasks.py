"""Known tasks: those of this process or of any worker of the last 30 days, and their arguments."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final, Literal

from ostinato.clock import Clock
from ostinato.core.builtin import NOTHING_ALLOWED, Permits
from ostinato.core.errors import NotFound, UnknownTask
from ostinato.core.model import Json
from ostinato.core.payload import decode
from ostinato.core.task_schema import Schema, TaskSchema, check_by_schema
from ostinato.store.store import Store
from ostinato.task import Task
from ostinato.task.parameters import help_of, schema_of

# -- Known tasks: those of this process or of any worker of the last 30 days, and their arguments

FRESH: Final = timedelta(seconds=1)  # the descriptions of workers are read again after this


@dataclass(frozen=True, slots=True)
class _Read:
    """A worker's description of a task, if there is one, and when it was read."""

    at: datetime
    found: TaskSchema | None


def no_task(_name: str) -> Task[..., Any] | None:
    """Find no task: for a service without an app."""
    return None


class KnownTasks:
    """The known tasks, and checks of names and args against them."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        here: Callable[[], Collection[str]] = tuple,
        own: Callable[[str], Task[..., Any] | None] = no_task,
        permits: Permits = NOTHING_ALLOWED,
    ) -> None:
        """`here`: the tasks of this process. `own`: finds a user's task, which may replace a built-in one."""
        self._store, self._clock, self._here = store, clock, here
        self.features = store.database.features
        self.own, self.permits = own, permits
        self._elsewhere: frozenset[str] = frozenset()
        self._read: Mapping[str, _Read] = {}

    def require(self, names: Collection[str]) -> None:
        """Raise UnknownTask unless each of these names is known; most unknown names are typing mistakes.

        Raise MissingExtra for a built-in task that could run neither here nor on a worker.
        """
        strange = set(names) - set(self._here()) - self.features.runnable.keys() - self._elsewhere
        if strange:
            self._elsewhere = self._store.workers.known_tasks(self._clock.now())
            strange -= self._elsewhere
        for name in sorted(strange):
            if self.has_built_in(name):
                self.features.tasks[name].require(f"The task {name}")
            raise UnknownTask(self._sentence(name))

    def everywhere(self) -> frozenset[str]:
        """Return the names of all known tasks."""
        self._elsewhere = self._store.workers.known_tasks(self._clock.now())
        return frozenset({*self._here(), *self.features.tasks, *self._elsewhere})

    def has_built_in(self, name: str) -> bool:
        """Return True if a built-in task has this name, even if one of the user's has replaced it."""
        return name in self.features.tasks

    def is_built_in(self, name: str) -> bool:
        """Return True if this name is a built-in task."""
        return self.has_built_in(name) and self.own(name) is None

    def described(self, names: Collection[str]) -> Mapping[str, TaskSchema]:
        """Return workers' descriptions of those of these tasks that only other processes have."""
        wanted = [name for name in names if not self.has_built_in(name) and self.own(name) is None]
        if not wanted:
            return {}
        now = self._clock.now()
        fresh = {name: read for name, read in self._read.items() if timedelta(0) <= now - read.at < FRESH}
        if new := [name for name in wanted if name not in fresh]:
            schemas = self._store.workers.task_schemas(new)
            self._read = fresh = {**fresh, **{name: _Read(now, schemas.get(name)) for name in new}}
        return {name: found for name in wanted if (found := fresh[name].found) is not None}

    def undescribed(self, names: Collection[str]) -> Sequence[str]:
        """List the tasks whose args neither this process nor a worker has described."""
        described = self.described(names)
        return [
            name
            for name in sorted(names)
            if not self.has_built_in(name) and name not in described and self.own(name) is None
        ]

    def schema(self, name: str, described: Mapping[str, TaskSchema]) -> Schema | None:
        """Return the schema of the args of a user's task."""
        own = self.own(name)
        if own is not None:
            return schema_of(own)
        return described[name].args if name in described else None

    def check_args(
        self, name: str, args: Json, described: Mapping[str, TaskSchema], run_args: Sequence[str] = ()
    ) -> None:
        """Raise Invalid if a task cannot be run with these args, or if `run_args` opens too much to operators.

        `described`: the result of the method of this name; nothing is read here. Args of tasks of this process are
        checked where a call is bound.
        """
        if self.is_built_in(name):
            given = decode(args)
            built_in = self.features.built_in(name)
            built_in.check(given, self.permits)
            built_in.check_open(given, run_args)
        elif name in described:
            check_by_schema(described[name].args, decode(args))

    def check_own(self, name: str, args: Json) -> None:
        """Raise WrongArgument if a task of this process does not take these args; other tasks pass."""
        own = self.own(name)
        if own is not None:
            own.check(decode(args))

    def _sentence(self, name: str) -> str:
        close = get_close_matches(name, {*self._here(), *self.features.tasks, *self._elsewhere}, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        return (
            f"No process here, and no worker of the last 30 days, knows a task {name!r}.{hint}"
            " With allow_unknown it is accepted, and waits for a worker that knows it."
        )


# -- Questions about tasks and their args

Origin = Literal["built_in", "own", "elsewhere"]


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task, as far as it is known here. Of a task that no worker has described only the name is known."""

    name: str
    origin: Origin
    help: str = ""
    args: dict[str, Any] | None = None  # JSON schema
    off: str | None = None  # why it is not allowed here


class TaskService:
    """Questions about the known tasks."""

    def __init__(self, known: KnownTasks) -> None:
        self._known = known

    def list(self) -> list[TaskView]:
        """List the known tasks, by name."""
        names = self._known.everywhere()
        described = self._known.described(names)
        return [self._view(name, described.get(name)) for name in sorted(names)]

    def get(self, name: str) -> TaskView:
        """Return one task."""
        if name not in self._known.everywhere():
            raise NotFound(f"No process here, and no worker of the last 30 days, knows a task {name[:100]!r}.")
        return self._view(name, self._known.described([name]).get(name))

    def run_args(self, name: str) -> tuple[str, ...]:
        """Return the args that the jobs of a task open to operators by default."""
        own = self._known.own(name)
        return () if own is None else own.run_args

    def _view(self, name: str, described_there: TaskSchema | None) -> TaskView:
        own = self._known.own(name)
        if own is not None:
            return TaskView(name, "own", help_of(own), schema_of(own))
        if described_there is not None:
            return TaskView(name, "elsewhere", described_there.help, dict(described_there.args))
        if not self._known.is_built_in(name):
            return TaskView(name, "elsewhere")
        ours = self._known.features.built_in(name)
        return TaskView(name, "built_in", ours.help, ours.schema, ours.off(self._known.permits))
