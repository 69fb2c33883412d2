"""JSON schema of a task's arguments, from the signature of its function."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, Union, get_args, get_origin
from uuid import UUID

from ostinato.core.errors import Invalid
from ostinato.core.payload import encode
from ostinato.core.task_schema import TaskSchema

if TYPE_CHECKING:
    from ostinato.task.registry import Registry
    from ostinato.task.task import Task

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
