"""A task: a function that can be run by name, with its arguments as a JSON object by parameter name.

A function asks for its Context with a first parameter annotated `Context` (or called `ctx`, without an
annotation); nobody who calls, binds or enqueues it sees that parameter.

A function whose first parameter is called `payload` may also be called as other schedulers do it: with the whole
args object as `payload` (unless args has a key of that name), and with the Context as `job` if that is its
second parameter: `def send(payload, job): ...`.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from ostinato.core.errors import Invalid
from ostinato.core.model import Definition, Json
from ostinato.core.payload import encode
from ostinato.core.policy import Isolation
from ostinato.core.task_schema import Schema, check_by_schema, check_value
from ostinato.task.context import Context
from ostinato.task.describing import schema_of
from ostinato.task.parameters import Parameters

LONGEST_NAME = 200
USUAL: Mapping[str, type] = {"string": str, "integer": int, "number": float, "boolean": bool}

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Call:
    """A task and its arguments: what there is to run."""

    task: str
    args: Json


class Task(Generic[P, R]):
    """Code that can be run, by name. `P` are the parameters without the Context, `R` what a plain call returns."""

    @overload
    def __init__(
        self,
        function: Callable[Concatenate[Context, P], R],
        name: str = "",
        isolation: Isolation | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self, function: Callable[P, R], name: str = "", isolation: Isolation | None = None
    ) -> None: ...
    def __init__(
        self, function: Callable[..., R], name: str = "", isolation: Isolation | None = None
    ) -> None:
        """`isolation` None: an `async def` on the loop, a `def` as its worker is set."""
        self.function = function
        self.name = _checked(name or getattr(function, "__name__", ""), function)
        self.is_async = _is_async(function)
        self.isolation = isolation
        self.limits: Mapping[
            str, Any
        ] = {}  # policies that hold for every run of it, unless its job has its own
        self.run_args: tuple[str, ...] = ()  # what its jobs open to operators, unless they say otherwise
        # Whether a worker that stops does not wait for it: what it has done is kept, and it goes on from there.
        self.hands_back = False
        self._check_isolation()
        self._parameters = Parameters(function)
        functools.update_wrapper(self, function, updated=())
        self.__signature__ = self._parameters.signature

    def open_to_operators(self, names: Sequence[str]) -> None:
        """Let operators set these args at a run, by default. Invalid for a name that the function does not take."""
        for name in names:
            if not self._parameters.takes(name.partition(".")[0]):
                raise Invalid(
                    f"run_args names {name}, and {self.name}{self.__signature__} has no such parameter."
                )
        self.run_args = tuple(names)

    def limited(self, definition: Definition) -> Definition:
        """A definition with the limits of the task where the job, made by whom and where ever, has none."""
        policies = definition.policies
        own = {name: value for name, value in self.limits.items() if getattr(policies, name) is None}
        return replace(definition, policies=replace(policies, **own)) if own else definition

    def __repr__(self) -> str:
        return f"<Task {self.name}{self.__signature__}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """A plain call, here and now: inside a run with that run's Context, elsewhere with a quiet one."""
        if not self.wants_context:
            return self.function(*args, **kwargs)
        named = self._parameters.by_name(args, kwargs)
        return self.call(Context.current() or Context.quiet(self.name, named), named)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """The task with these arguments, to be run later. Invalid if they do not fit, or are not JSON."""
        try:
            named = self._parameters.by_name(args, kwargs)
        except TypeError as error:
            raise Invalid(
                f"{self.name}{self.__signature__} does not take these arguments: {error}."
            ) from None
        text = encode(named)  # first: its advice for values that are no JSON is better
        self.check_types(named)
        return Call(self.name, text)

    def check(self, args: Mapping[str, Any]) -> None:
        """Raise WrongArgument unless these args fit by name and type."""
        check_by_schema(schema_of(self), args)

    def check_types(self, named: Mapping[str, Any]) -> None:
        """Raise WrongArgument unless these values have the types of their parameters."""
        for name, usual, said in self._typed if named else ():
            if name in named and type(named[name]) is not usual:
                check_value(said, named[name], f"args.{name}")

    @cached_property
    def _typed(self) -> tuple[tuple[str, type | None, Schema], ...]:
        """The parameters with a type: name, the type that fits without a closer look, schema."""
        properties = schema_of(self)["properties"]
        return tuple(
            (name, USUAL.get(said.get("type", "")), said)
            for name, said in properties.items()
            if said.keys() - {"default"}
        )

    @property
    def wants_context(self) -> bool:
        return self._parameters.wants_context

    def _check_isolation(self) -> None:
        match self.isolation:
            case Isolation.ASYNC if not self.is_async:
                raise Invalid(f"{self.where} cannot run on the loop: make it an `async def`.")
            case Isolation.THREAD if self.is_async:
                raise Invalid(f"{self.where} cannot run on a thread: make it a `def`.")
            case Isolation.PROCESS if "<" in getattr(self.function, "__qualname__", "<"):
                raise Invalid(
                    f"{self.where} cannot run in a process of its own, which has to import it: make it a "
                    "function of a module."
                )

    @property
    def where(self) -> str:
        """The place of the function, for messages."""
        return (
            f"{getattr(self.function, '__module__', '?')}.{getattr(self.function, '__qualname__', self.name)}"
        )

    def arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        """Stored args as keyword arguments. Invalid if they do not fit: the function may have changed since."""
        try:
            return self._parameters.from_stored(args)
        except Invalid as error:
            raise Invalid(f"The args do not fit {self.name}{self.__signature__}: {error}.") from None

    def call(self, context: Context, arguments: dict[str, Any]) -> R:
        """Call the function with what `arguments` gave, and with the Context if it wants one."""
        parameters = self._parameters
        if parameters.context_first:
            return self.function(context, **arguments)
        if parameters.context_as is not None:
            return self.function(**arguments, **{parameters.context_as: context})
        return self.function(**arguments)


def _checked(name: str, function: Callable[..., Any]) -> str:
    if name.isprintable() and name == name.strip() and name != "<lambda>" and 0 < len(name) <= LONGEST_NAME:
        return name
    raise Invalid(
        f"{name[:60]!r} cannot be the name of a task; give {function!r} a name of 1 to {LONGEST_NAME} printable "
        "characters."
    )


def _is_async(function: Callable[..., Any]) -> bool:
    """Return True if a call must be awaited: also for a partial, or an object with an async `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
