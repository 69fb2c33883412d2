"""Schemas of the user's tasks: JSON that a worker writes, and the check of args by it.

A schema uses the few words of JSON schema that `task/parameters.py` writes. Unknown words, from a newer worker, are
ignored.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import NoneType
from typing import Any, Final

from ostinato.core.errors import WrongArgument

Schema = Mapping[str, Any]

WHOLE_OBJECT: Final = "payload"  # a task whose first parameter has this name may take its args as one object
TYPES: Final[Mapping[str, tuple[str, type | tuple[type, ...]]]] = {
    "string": ("text", str),
    "integer": ("a whole number", int),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", bool),
    "null": ("null", NoneType),
    "array": ("a list", (list, tuple)),
    "object": ("a JSON object", dict),
}


@dataclass(frozen=True, slots=True)
class TaskSchema:
    """Description of a task: its help, and the schema of its args."""

    name: str
    help: str
    args: Schema


def check_by_schema(
    schema: Schema, args: Mapping[str, Any], unsettled: Collection[str] = (), where: str = "args"
) -> None:
    """Raise WrongArgument unless args fit by name and type. The values of the `unsettled` are not known yet."""
    properties = schema["properties"]
    if next(iter(properties), "") == WHOLE_OBJECT and WHOLE_OBJECT not in args:
        return
    for name in () if schema["additionalProperties"] else sorted(args.keys() - properties.keys()):
        path = f"{where}.{name[:100]}"
        raise WrongArgument(path, f"{path} does not exist{_hint(name, properties)}")
    for name in schema["required"]:
        if name not in args:
            raise WrongArgument(f"{where}.{name}", f"{where}.{name} is required.")
    for name, said in properties.items():
        if name in args and name not in unsettled:
            check_value(said, args[name], f"{where}.{name}")


def check_value(said: Schema, value: Any, path: str) -> None:
    """Raise WrongArgument unless a value fits the schema of its parameter. Its default always fits."""
    if "default" in said and value == said["default"]:
        return
    for place, expected, given in _flaws(said, value, path):
        shown = repr(given) if len(repr(given)) <= 60 else repr(given)[:60] + "…"
        raise WrongArgument(place, f"{place} must be {expected}, not {shown}.")


def _flaws(said: Schema, value: Any, path: str) -> Iterator[tuple[str, str, Any]]:
    """Yield the place of each wrong value, what is expected there, and the value."""
    if "anyOf" in said:
        if all(any(_flaws(each, value, path)) for each in said["anyOf"]):
            yield path, " or ".join(_expected(each) for each in said["anyOf"]), value
    elif not _is_of(said, value):
        yield path, _expected(said), value
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _flaws(said.get("items", {}), each, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _flaws(said.get("additionalProperties", {}), each, f"{path}.{str(name)[:100]}")


def _is_of(said: Schema, value: Any) -> bool:
    """Compare as JSON does: true is not 1."""
    if "enum" in said:
        return any(each == value and isinstance(each, bool) == isinstance(value, bool) for each in said["enum"])
    if isinstance(value, bool):
        return said.get("type") not in TYPES or said["type"] == "boolean"
    return isinstance(value, TYPES.get(said.get("type", ""), ("", object))[1])


def _expected(said: Schema) -> str:
    if "enum" in said:
        return f"one of {', '.join(map(repr, said['enum']))}"
    return TYPES.get(said.get("type", ""), ("another value", object))[0]


def _hint(name: str, properties: Schema) -> str:
    if not properties:
        return "; the task takes no args."
    close = get_close_matches(name[:100], sorted(properties), n=1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(properties)}."
