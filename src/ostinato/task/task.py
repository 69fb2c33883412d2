"""A task: a function that can be run by name, with its arguments as a JSON object.

A function gets its Context as the first parameter if that is annotated `Context`, or is called `ctx` without an
annotation. The parameter is not part of the task's args.

A function whose first parameter is called `payload` is called as other schedulers do it: with the whole args object
as `payload` (unless args has a key of that name), and with the Context as `job` if that is its second parameter:
`def send(payload, job): ...`.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from ostinato.core.errors import Invalid
from ostinato.core.model import Definition, Json
from ostinato.core.payload import encode
from ostinato.core.policy import Isolation
from ostinato.core.task_schema import Schema, check_by_schema, check_value
from ostinato.task.context import Context
from ostinato.task.parameters import Parameters, schema_of

if TYPE_CHECKING:
    from ostinato.task.around import AroundFunction

LONGEST_NAME = 200
USUAL: Mapping[str, type] = {"string": str, "integer": int, "number": float, "boolean": bool}

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Call:
    """A task and its arguments, ready to run."""

    task: str
    args: Json


class Task(Generic[P, R]):
    """Code that can be run, by name. `P` are the parameters without the Context, `R` is the result of a call."""

    @overload
    def __init__(
        self,
        function: Callable[Concatenate[Context, P], R],
        name: str = "",
        isolation: Isolation | None = None,
    ) -> None: ...
    @overload
    def __init__(self, function: Callable[P, R], name: str = "", isolation: Isolation | None = None) -> None: ...
    def __init__(self, function: Callable[..., R], name: str = "", isolation: Isolation | None = None) -> None:
        """`isolation` None: an `async def` runs on the loop, a `def` by the worker's setting."""
        self.function = function
        self.name = _checked(name or getattr(function, "__name__", ""), function)
        self.is_async = _is_async(function)
        self.isolation = isolation
        self.limits: Mapping[str, Any] = {}  # default policies of its jobs
        self.run_args: tuple[str, ...] = ()  # default args of its jobs that operators may set
        self.hands_back = False  # True: a stopping worker does not wait, since the next run goes on from there
        self.arounds: tuple[AroundFunction, ...] = ()  # what runs around its call
        self._check_isolation()
        self._parameters = Parameters(function)
        functools.update_wrapper(self, function, updated=())
        self.__signature__ = self._parameters.signature

    def open_to_operators(self, names: Sequence[str]) -> None:
        """Let operators set these args at a run, by default; raise Invalid for an unknown parameter."""
        for name in names:
            if not self._parameters.takes(name.partition(".")[0]):
                raise Invalid(f"run_args names {name}, and {self.name}{self.__signature__} has no such parameter.")
        self.run_args = tuple(names)

    def limited(self, definition: Definition) -> Definition:
        """Return the definition with the task's limits where the job has none."""
        policies = definition.policies
        own = {name: value for name, value in self.limits.items() if getattr(policies, name) is None}
        return replace(definition, policies=replace(policies, **own)) if own else definition

    def __repr__(self) -> str:
        return f"<Task {self.name}{self.__signature__}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function now, with the Context of the present run, or a quiet one outside a run."""
        if not self.wants_context:
            return self.function(*args, **kwargs)
        named = self._parameters.by_name(args, kwargs)
        return self.call(Context.current() or Context.quiet(self.name, named), named)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """Return a Call with these arguments; raise Invalid if they do not fit, or are not JSON."""
        try:
            named = self._parameters.by_name(args, kwargs)
        except TypeError as error:
            raise Invalid(f"{self.name}{self.__signature__} does not take these arguments: {error}.") from None
        text = encode(named)  # first, since its errors about values that are not JSON say more
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
        """The parameters with a type: name, the type that needs no further check, schema."""
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
                    f"{self.where} cannot run in a process of its own, which must import it: make it a "
                    "function of a module."
                )

    @property
    def where(self) -> str:
        """The place of the function, for messages."""
        return f"{getattr(self.function, '__module__', '?')}.{getattr(self.function, '__qualname__', self.name)}"

    def arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return stored args as keyword arguments; raise Invalid if they no longer fit the function."""
        try:
            return self._parameters.from_stored(args)
        except Invalid as error:
            raise Invalid(f"The args do not fit {self.name}{self.__signature__}: {error}.") from None

    def call(self, context: Context, arguments: dict[str, Any]) -> R:
        """Call the function with the result of `arguments`, and with the Context if it wants one."""
        parameters = self._parameters
        if parameters.context_first:
            return self.function(context, **arguments)
        if parameters.context_as is not None:
            return self.function(**arguments, **{parameters.context_as: context})
        return self.function(**arguments)


def _checked(name: str, function: object) -> str:
    if isinstance(function, str):  # @app.task("0 9 * * *")
        raise Invalid(f"Options of a task have names: write cron={function!r}, every=… or name=….")
    if name.isprintable() and name == name.strip() and name != "<lambda>" and 0 < len(name) <= LONGEST_NAME:
        return name
    raise Invalid(
        f"{name[:60]!r} cannot be the name of a task; give {function!r} a name of 1 to {LONGEST_NAME} printable "
        "characters."
    )


def _is_async(function: Callable[..., Any]) -> bool:
    """Return True if a call must be awaited: also of a partial, or an object with an async `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
