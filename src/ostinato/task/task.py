"""A task: a function that can be run by name, with its arguments as a JSON object by parameter name.

A function asks for its Context with a first parameter annotated `Context` (or called `ctx`, without an
annotation); nobody who calls, binds or enqueues it sees that parameter.

A function whose first parameter is called `payload` is also called as other schedulers do it: with the whole
args object as `payload` (unless args has a key of that name), and with the Context as `job` if that is its
second parameter: `def send(payload, job): ...`.
"""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from ostinato.core.errors import Invalid
from ostinato.core.model import Json
from ostinato.core.payload import encode
from ostinato.task.context import Context

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
    def __init__(self, function: Callable[Concatenate[Context, P], R], name: str = "") -> None: ...
    @overload
    def __init__(self, function: Callable[P, R], name: str = "") -> None: ...
    def __init__(self, function: Callable[..., R], name: str = "") -> None:
        self.function = function
        self.name = name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """A plain call, here and now."""
        raise NotImplementedError

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """The task with these arguments, to be run later."""
        raise NotImplementedError

    def arguments(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Stored args as keyword arguments; Invalid when they do not fit."""
        raise NotImplementedError

    @property
    def where(self) -> str:
        """Where the function is."""
        raise NotImplementedError
