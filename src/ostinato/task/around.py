"""What an app runs around its tasks: generators with one `yield`, where the task runs.

The first registered is the outermost. A generator sees the exception of the run at its `yield`, and may raise another;
if it returns, the exception goes on. A process of its own finds the generators by reference in a table, which the
import of the user's modules fills.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from ostinato.core.errors import Invalid
from ostinato.task.signals import hide_frames_of

if TYPE_CHECKING:
    from ostinato.core.outcome import Outcome
    from ostinato.task.context import Context
    from ostinato.task.task import Task

hide_frames_of(__file__)

MAIN: Final = "__main__"
MAIN_AGAIN: Final = "__mp_main__"  # the same module in a process of its own
Wrapper = Callable[["Context"], Iterator[None] | AsyncIterator[None]]
W = TypeVar("W", bound=Wrapper)


class AroundReference(NamedTuple):
    """The name of a generator for other processes: its app, module and path."""

    app: str
    module: str
    path: str

    def __str__(self) -> str:
        return f"{self.module}.{self.path}"


@dataclass(frozen=True, slots=True)
class AroundFunction:
    """A generator function that runs around tasks."""

    reference: AroundReference
    function: Callable[[Context], Any]
    built_in: bool  # True: around built-in tasks, too
    is_async: bool  # True: around `async def` tasks only
    modules: tuple[str, ...]  # their import registers it, in a process of its own

    def fits(self, task: Task[..., Any], *, built_in: bool) -> bool:
        return (self.built_in or not built_in) and (task.is_async or not self.is_async)

    def wrong(self, what: str) -> Invalid:
        return Invalid(f"{self.reference} runs around tasks and {what}: it must yield once.")


_KNOWN: Final = dict[AroundReference, AroundFunction]()  # those of this process, for runs in processes of their own


class RunTracer(Protocol):
    """A tracer of runs, in the worker: it sees each run begin and end, on the loop's thread."""

    def begin(self, context: Context) -> None:
        """Begin the span of a run, and note its traceparent in the Context."""

    def end(self, context: Context, outcome: Outcome, raised: str | None) -> None:
        """End the span; `raised` is the class of the exception that the task has raised."""


def ours(function: Callable[[Context], Iterator[None]]) -> AroundFunction:
    """Make known a generator of Ostinato itself, which runs around all tasks; the import of its module does this."""
    module = function.__module__
    around = AroundFunction(AroundReference("", module, function.__qualname__), function, True, False, (module,))
    return _KNOWN.setdefault(around.reference, around)


class Arounds:
    """The generators of an app, the outermost first."""

    def __init__(self, app: str = "") -> None:
        self._app = app
        self.registered: list[AroundFunction] = []

    def add(self, function: Callable[..., Any], *, built_in: bool = False, modules: tuple[str, ...] = ()) -> None:
        """Register a generator function; raise Invalid for anything else, and for a second one of the same name.

        `modules` register it when they are imported; without them, its own module does.
        """
        is_async = inspect.isasyncgenfunction(function)
        if not (is_async or inspect.isgeneratorfunction(function)):
            raise Invalid(
                f"{function!r} cannot run around tasks: it must be a function with one `yield`, without "
                "@contextmanager."
            )
        known_by = modules or (getattr(function, "__module__", ""),)
        named = tuple(MAIN if each == MAIN_AGAIN else each for each in known_by)
        reference = AroundReference(self._app, named[0], getattr(function, "__qualname__", repr(function)))
        if any(each.reference == reference for each in self.registered):
            raise Invalid(f"{reference} already runs around the tasks of this app. Give the other one another name.")
        around = AroundFunction(reference, function, built_in, is_async, named)
        self.registered.append(around)
        _KNOWN[reference] = around

    def put_first(self, around: AroundFunction) -> None:
        """Register a generator of Ostinato itself as the outermost, once."""
        if around not in self.registered:
            self.registered.insert(0, around)

    def wrapping(self, task: Task[..., Any], *, built_in: bool) -> Task[..., Any]:
        """Return the task inside those that fit it."""
        fitting = tuple(each for each in self.registered if each.fits(task, built_in=built_in))
        return surrounded(task, fitting) if fitting else task

    @property
    def modules(self) -> set[str]:
        """The modules that a process of its own must import."""
        return {module for each in self.registered for module in each.modules}


def surrounded(task: Task[..., Any], arounds: tuple[AroundFunction, ...]) -> Task[..., Any]:
    """Return a copy of the task whose call runs inside these."""
    within = copy(task)
    call = partial(_awaited if task.is_async else _called, task.call, arounds)
    vars(within).update(arounds=arounds, call=call)
    return within


def known(reference: AroundReference) -> AroundFunction:
    """Return a generator of this process; raise Invalid if the import of its module has not registered it."""
    found = _KNOWN.get(reference)
    if found is None:
        raise Invalid(
            f"{reference} runs around this task, but a process of its own cannot find it: register it when its module "
            "is imported, not later."
        )
    return found


def _called(
    call: Callable[..., Any], arounds: tuple[AroundFunction, ...], context: Context, arguments: dict[str, Any]
) -> Any:
    if not arounds:
        return call(context, arguments)
    around = arounds[0]
    generator = around.function(context)
    if not _yields(generator):
        raise around.wrong("has not yielded")
    try:
        value = _called(call, arounds[1:], context, arguments)
    except BaseException as error:
        with _Seen(error):
            if _yields(generator, error):
                raise around.wrong("has yielded twice") from error
        raise
    if _yields(generator):
        raise around.wrong("has yielded twice")
    return value


async def _awaited(
    call: Callable[..., Any], arounds: tuple[AroundFunction, ...], context: Context, arguments: dict[str, Any]
) -> Any:
    if not arounds:
        return await call(context, arguments)
    around = arounds[0]
    generator = around.function(context)
    if not await _yields_soon(generator):
        raise around.wrong("has not yielded")
    try:
        value = await _awaited(call, arounds[1:], context, arguments)
    except GeneratorExit:
        raise  # the loop is closed: nothing can be awaited any more
    except BaseException as error:
        with _Seen(error):
            if await _yields_soon(generator, error):
                raise around.wrong("has yielded twice") from error
        raise
    if await _yields_soon(generator):
        raise around.wrong("has yielded twice")
    return value


def _yields(generator: Any, error: BaseException | None = None) -> bool:
    """Resume a generator, with the error if there is one; return True if it yields, False if it returns."""
    try:
        if error is None:
            next(generator)
        else:
            generator.throw(error)
    except StopIteration:
        return False
    return True


async def _yields_soon(generator: Any, error: BaseException | None = None) -> bool:
    if not hasattr(generator, "asend"):
        return _yields(generator, error)
    try:
        await (anext(generator) if error is None else generator.athrow(error))
    except StopAsyncIteration:
        return False
    return True


class _Seen:
    """A block in which a generator sees an error. Only another error leaves it; the traceback stays the task's."""

    __slots__ = ("_error", "_traceback")

    def __init__(self, error: BaseException) -> None:
        self._error, self._traceback = error, error.__traceback__

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, raised: BaseException | None, _frames: object) -> bool:
        self._error.__traceback__ = self._traceback
        return raised is self._error or self._is_disguised(raised)

    def _is_disguised(self, raised: BaseException | None) -> bool:
        """Return True for the RuntimeError into which Python turns a StopIteration that passes a generator."""
        return (
            isinstance(self._error, StopIteration | StopAsyncIteration)
            and isinstance(raised, RuntimeError)
            and raised.__cause__ is self._error
        )
