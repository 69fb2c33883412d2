"""`app.aio`: every call that asks or steers, for `async` code: `await app.aio.jobs.pause("report")`.

The methods are those of the services, with their parameters and docstrings; only the result is awaited. A call runs on
one of a few threads of its own: see `few_threads` (engine/threads.py).
"""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from ostinato.engine.threads import few_threads
from ostinato.service import Service
from ostinato.service.access import KeyService
from ostinato.service.executions import ExecutionService
from ostinato.service.jobs import JobService
from ostinato.service.tasks import TaskService

if TYPE_CHECKING:
    from ostinato.app.app import Ostinato

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class _Later(Generic[S, P, R]):
    """A method, awaited. Type checkers take parameters and result from the method itself."""

    def __init__(self, function: Callable[Concatenate[S, P], R]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, door: "_Door", _: type) -> Callable[P, Coroutine[Any, Any, R]]:
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return await few_threads(lambda: self.function(door._target(), *args, **kwargs))

        return call


class _Door:
    """An object whose methods are awaited. It is not asked for before the first call, which may open the database."""

    def __init__(self, target: Callable[[], Any]) -> None:
        self._target = target


class AsyncJobs(_Door):
    """`app.jobs`, awaited."""

    put = _Later(JobService.put)
    edit = _Later(JobService.edit)
    pause = _Later(JobService.pause)
    resume = _Later(JobService.resume)
    cancel = _Later(JobService.cancel)
    delete = _Later(JobService.delete)
    retry = _Later(JobService.retry)
    run = _Later(JobService.run)
    restart = _Later(JobService.restart)
    bulk = _Later(JobService.bulk)
    get = _Later(JobService.get)
    list = _Later(JobService.list)
    search = _Later(JobService.search)
    stats = _Later(JobService.stats)
    next_times = _Later(JobService.next_times)
    skips = _Later(JobService.skips)
    why = _Later(JobService.why)
    events = _Later(JobService.events)


class AsyncExecutions(_Door):
    """`app.executions`, awaited."""

    get = _Later(ExecutionService.get)
    list = _Later(ExecutionService.list)
    search = _Later(ExecutionService.search)
    log = _Later(ExecutionService.log)
    cancel = _Later(ExecutionService.cancel)
    release = _Later(ExecutionService.release)


class AsyncTasks(_Door):
    """`app.scheduler.tasks`, awaited."""

    list = _Later(TaskService.list)
    get = _Later(TaskService.get)
    run_args = _Later(TaskService.run_args)


class AsyncKeys(_Door):
    """`app.scheduler.keys`, awaited."""

    create = _Later(KeyService.create)
    list = _Later(KeyService.list)
    revoke = _Later(KeyService.revoke)
    find = _Later(KeyService.find)


class AsyncScheduler(_Door):
    """`app.scheduler`, awaited."""

    status_counts = _Later(Service.status_counts)
    metrics = _Later(Service.metrics)
    gauges = _Later(Service.gauges)
    feed = _Later(Service.feed)
    workers = _Later(Service.workers)
    drain = _Later(Service.drain)
    queues = _Later(Service.queues)
    pause_queue = _Later(Service.pause_queue)
    resume_queue = _Later(Service.resume_queue)
    bound_queue = _Later(Service.bound_queue)
    check_up = _Later(Service.check_up)
    problems = _Later(Service.problems)

    @property
    def tasks(self) -> AsyncTasks:
        return AsyncTasks(lambda: self._target().tasks)

    @property
    def keys(self) -> AsyncKeys:
        return AsyncKeys(lambda: self._target().keys)


class Aio(_Door):
    """An app whose calls are awaited: `await app.aio.jobs.pause("report")`."""

    def __init__(self, app: "Ostinato") -> None:
        super().__init__(lambda: app)

    @property
    def jobs(self) -> AsyncJobs:
        return AsyncJobs(lambda: self._target().jobs)

    @property
    def executions(self) -> AsyncExecutions:
        return AsyncExecutions(lambda: self._target().executions)

    @property
    def scheduler(self) -> AsyncScheduler:
        return AsyncScheduler(lambda: self._target().scheduler)
