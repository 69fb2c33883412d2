"""Parameters of a task's function, without the Context, and their JSON schema."""

from __future__ import annotations

import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, Union, get_args, get_origin
from uuid import UUID

from ostinato.core.errors import Invalid
from ostinato.core.payload import encode
from ostinato.core.task_schema import TaskSchema
from ostinato.task.context import Context

if TYPE_CHECKING:
    from ostinato.task.registry import Registry
    from ostinato.task.task import Task


Parameter = inspect.Parameter


class Parameters:
    """Conversion of named args to a call of one function."""

    __slots__ = (
        "_all_in_order",
        "_hidden",
        "_known",
        "_open",
        "_order",
        "_required",
        "_whole",
        "context_as",
        "context_first",
        "signature",
    )

    def __init__(self, function: Callable[..., Any]) -> None:
        everything = list(_signature(function).parameters.values())
        self.context_first = bool(everything) and _wants_context(everything[0], function)
        shown = everything[self.context_first :]
        self._whole = bool(shown) and shown[0].name == "payload"
        self.context_as = "job" if self._whole and len(shown) > 1 and shown[1].name == "job" else None
        shown = [each for each in shown if each.name != self.context_as]
        _check(shown, function)
        self.signature = inspect.Signature(shown)
        named = [each for each in shown if each.kind is not Parameter.VAR_KEYWORD]
        self._open = len(named) < len(shown)
        self._order = [each.name for each in shown if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
        self._known = frozenset(each.name for each in named)
        self._all_in_order = len(named) if len(named) == len(self._order) else None
        self._required = frozenset(each.name for each in named if each.default is Parameter.empty)
        self._hidden = frozenset(each.name for each in everything) - {each.name for each in shown}

    @property
    def wants_context(self) -> bool:
        return self.context_first or self.context_as is not None

    def by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name; raise TypeError as the call itself would."""
        if not kwargs and self._all_in_order == len(args):
            return dict(zip(self._order, args, strict=True))
        named = dict(zip(self._order, args, strict=False))  # `bind` takes ten times as long, so it comes last
        if len(args) <= len(self._order) and not named.keys() & kwargs.keys():
            named |= kwargs
            if self._fits(named):
                return named
        bound = self.signature.bind(*args, **kwargs)
        named = bound.arguments
        for name in named.keys() - self._known:
            named |= named.pop(name)
        if self._hidden & named.keys():
            raise TypeError(f"{_listed(self._hidden & named.keys())} is not an argument to be given")
        return named

    def from_stored(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return keyword arguments from stored args; raise Invalid if they do not fit."""
        if self._whole and "payload" not in args:
            return {"payload": args}
        if self._fits(args):
            return args
        raise Invalid("; ".join(self._complaints(args)))

    def takes(self, name: str) -> bool:
        """Return True if args may have this name."""
        return name in self._known or self._whole or (self._open and name not in self._hidden)

    def _fits(self, args: Mapping[str, Any]) -> bool:
        names = args.keys()
        if names == self._known:
            return True
        return names >= self._required and (names <= self._known or (self._open and not names & self._hidden))

    def _complaints(self, args: Mapping[str, Any]) -> list[str]:
        missing = self._required - args.keys()
        unexpected = args.keys() & self._hidden if self._open else args.keys() - self._known
        complaints = {"missing": missing, "unexpected": unexpected}
        return [f"{word} {_listed(names)}" for word, names in complaints.items() if names]


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        if sys.version_info >= (3, 14):  # a name imported only for type checkers must not be an error
            from annotationlib import Format

            return inspect.signature(function, annotation_format=Format.STRING)
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise Invalid(f"The parameters of {function!r} cannot be read; wrap it in a function.") from None


def _check(shown: Iterable[Parameter], function: Callable[..., Any]) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise Invalid(f"{function!r} is a generator, which a task cannot be; use a function.")
    for each in shown:
        if each.kind in (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL):
            raise Invalid(
                f"The parameter {each.name} of {function!r} cannot be passed by name, and args are stored by "
                "name; make it an ordinary parameter (for many values, a list)."
            )


def _wants_context(first: Parameter, function: Callable[..., Any]) -> bool:
    if first.kind not in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
        return False
    if first.annotation is Parameter.empty:
        return first.name == "ctx"
    return _names_context(first.annotation, function)


def _names_context(annotation: object, function: Callable[..., Any]) -> bool:
    """Return True if an annotation is Context, also as text."""
    if not isinstance(annotation, str):
        return annotation is Context or Context in get_args(annotation)
    try:
        resolved = eval(annotation, _globals(function))
    except Exception:  # noqa: BLE001  a name imported only for type checkers: search the text
        return re.search(r"\bContext\b", annotation) is not None
    return _names_context(resolved, function)


def _globals(function: Callable[..., Any]) -> dict[str, Any]:
    plain: Any = inspect.unwrap(function)
    plain = getattr(plain, "func", plain)  # the function of a partial
    return getattr(plain, "__globals__", None) or getattr(plain.__call__, "__globals__", {})


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))


# -- JSON schema of a task's arguments, from the signature of its function

PLAIN: Final[dict[Any, dict[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    UUID: {"type": "string", "format": "uuid"},
    timedelta: {"anyOf": [{"type": "string"}, {"type": "number"}], "format": "duration"},
}
MISSING: Final = inspect.Parameter.empty  # no annotation, or no default


def schema_of(task: Task[..., Any]) -> dict[str, Any]:
    """Return the schema of a task's parameters. A parameter of an unknown type accepts any value."""
    hints = _hints(task)
    shown = list(task.__signature__.parameters.values())
    named = [each for each in shown if each.kind is not inspect.Parameter.VAR_KEYWORD]
    return {
        "type": "object",
        "properties": {each.name: _property(each, hints) for each in named},
        "required": [each.name for each in named if each.default is MISSING],
        "additionalProperties": len(named) < len(shown),
    }


def describe(registry: Registry) -> tuple[TaskSchema, ...]:
    """Describe the user's tasks."""
    tasks = filter(None, map(registry.own, registry.names()))
    return tuple(TaskSchema(task.name, help_of(task), schema_of(task)) for task in tasks)


def help_of(task: Task[..., Any]) -> str:
    """Return the first paragraph of the task's docstring."""
    return " ".join((inspect.getdoc(task.function) or "").partition("\n\n")[0].split())


def _hints(task: Task[..., Any]) -> dict[str, Any]:
    """Return the annotations as types; empty if they cannot be evaluated (a name under `TYPE_CHECKING`)."""
    try:
        return typing.get_type_hints(inspect.unwrap(task.function))
    except Exception:  # noqa: BLE001  annotations are code of users
        return {}


def _property(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> dict[str, Any]:
    described = _type(hints.get(parameter.name, MISSING))
    if parameter.default is MISSING:
        return described
    try:
        encode({"default": parameter.default})
    except Invalid:  # a default that is not JSON cannot be shown
        return described
    return {**described, "default": parameter.default}


def _type(hint: Any) -> dict[str, Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        return _type(inner[0])
    if origin is Literal:
        return {"enum": list(inner)} if all(type(each) in PLAIN for each in inner) else {}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_type(each) for each in inner]}
    if hint in PLAIN:
        return dict(PLAIN[hint])
    kind = origin or hint
    return _collection(kind, inner) if isinstance(kind, type) else {}


def _collection(kind: type, inner: tuple[Any, ...]) -> dict[str, Any]:
    """Describe a list or an object. Bytes, subclasses of `str` and named tuples accept any value."""
    if issubclass(kind, Mapping):
        return {"type": "object"} | ({"additionalProperties": _type(inner[1])} if len(inner) == 2 else {})
    if issubclass(kind, str | bytes | bytearray) or hasattr(kind, "_fields"):
        return {}
    if issubclass(kind, Sequence | set | frozenset):
        is_one_kind = len(inner) == 1 or (len(inner) == 2 and inner[1] is ...)
        return {"type": "array"} | ({"items": _type(inner[0])} if is_one_kind else {})
    return {}
