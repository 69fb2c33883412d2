"""`AppTask`: a task that an app registers, and the ways to enqueue it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from ostinato.core.model import Definition
from ostinato.core.policy import Isolation
from ostinato.core.schedule import Once
from ostinato.core.times import parse_duration
from ostinato.handle import Handle
from ostinato.options import (
    POLICY_OPTIONS,
    Duration,
    JobOptions,
    Policy,
    check_names,
    define,
    instant,
    limits_from,
    run_args_from,
)
from ostinato.task import Call, Context, Task

if TYPE_CHECKING:
    from ostinato.app.app import Ostinato

P = ParamSpec("P")
R = TypeVar("R")


class UsingOptions(Policy, TypedDict, total=False):
    """Options of `using`: every policy, a key, and the caller's connection."""

    key: str
    connection: Any


@dataclass(frozen=True, slots=True)
class _EnqueueOptions:
    """Options of an enqueue: policies, and the caller's transaction."""

    options: JobOptions
    connection: object | None = None


class Enqueueing(Generic[P]):
    """The ways to enqueue a task; the arguments are those of its function."""

    def __init__(self, app: "Ostinato", task: Task[P, Any], given: _EnqueueOptions) -> None:
        self._app, self._task, self._given = app, task, given

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """Run it once, as soon as a worker is free."""
        return self._put(self._task.bind(*args, **kwargs), self._app.now())

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """`enqueue` for async code: it uses the database on a thread."""
        call = self._task.bind(*args, **kwargs)
        return await self._app.in_thread(lambda: self._put(call, self._app.now()))

    def enqueue_in(self, delay: Duration, /, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """Run it once, after a while."""
        return self._put(self._task.bind(*args, **kwargs), self._app.now() + parse_duration(delay))

    def enqueue_at(self, at: datetime, /, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """Run it once at a given time; a past time means now."""
        return self._put(self._task.bind(*args, **kwargs), instant(at))

    async def aenqueue_in(self, delay: Duration, /, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """`enqueue_in` for async code."""
        call, wait = self._task.bind(*args, **kwargs), parse_duration(delay)
        return await self._app.in_thread(lambda: self._put(call, self._app.now() + wait))

    async def aenqueue_at(self, at: datetime, /, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """`enqueue_at` for async code."""
        call, when = self._task.bind(*args, **kwargs), instant(at)
        return await self._app.in_thread(lambda: self._put(call, when))

    def _put(self, call: Call, at: datetime) -> Handle:
        definition = run_once(call, at, self._given.options, self._app.name)
        return self._app.put([definition], self._given.connection)[0]


def run_once(call: Call, at: datetime, options: JobOptions, app: str) -> Definition:
    """Define a job that runs once."""
    return define(call.task, call.args, Once(at), options, app, default_retries=0)


class AppTask(Task[P, R]):
    """A function that an app registers by name: call it, bind it, enqueue it."""

    @overload
    def __init__(
        self,
        app: "Ostinato",
        function: Callable[Concatenate[Context, P], R],
        name: str,
        options: JobOptions,
        isolation: Isolation | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        app: "Ostinato",
        function: Callable[P, R],
        name: str,
        options: JobOptions,
        isolation: Isolation | None = None,
    ) -> None: ...
    def __init__(
        self,
        app: "Ostinato",
        function: Callable[..., R],
        name: str,
        options: JobOptions,
        isolation: Isolation | None = None,
    ) -> None:
        super().__init__(function, name, isolation)
        self._app = app
        self.options = options
        self.limits = limits_from(options)
        self.open_to_operators(run_args_from(options))
        self._plain = Enqueueing(app, self, _EnqueueOptions(without_schedule(options)))

    def using(self, **how: Unpack[UsingOptions]) -> Enqueueing[P]:
        """Set options of the next enqueue: policies, a key, or the caller's own transaction (`connection=`)."""
        given = dict(how)
        check_names(given, UsingOptions.__annotations__)
        connection = given.pop("connection", None)
        options = cast(JobOptions, {**without_schedule(self.options), **given})
        return Enqueueing(self._app, self, _EnqueueOptions(options, connection))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """Run it once, as soon as a worker is free."""
        return self._plain.enqueue(*args, **kwargs)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """`enqueue` for async code: it uses the database on a thread."""
        return await self._plain.aenqueue(*args, **kwargs)

    def enqueue_in(self, delay: Duration, /, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """Run it once, after a while."""
        return self._plain.enqueue_in(delay, *args, **kwargs)

    def enqueue_at(self, at: datetime, /, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """Run it once at a given time; a past time means now."""
        return self._plain.enqueue_at(at, *args, **kwargs)

    async def aenqueue_in(self, delay: Duration, /, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """`enqueue_in` for async code."""
        return await self._plain.aenqueue_in(delay, *args, **kwargs)

    async def aenqueue_at(self, at: datetime, /, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """`enqueue_at` for async code."""
        return await self._plain.aenqueue_at(at, *args, **kwargs)


def without_schedule(options: JobOptions) -> JobOptions:
    """Keep only the policies; the schedule, its timing and its key do not apply to an enqueue."""
    policies = {name: value for name, value in options.items() if name in POLICY_OPTIONS}
    return cast(JobOptions, policies)
