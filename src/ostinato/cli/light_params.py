"""Parameters that are read without pydantic.

Typer reads each parameter with an adapter of pydantic, whose import takes a third of an everyday command. Texts, flags
and whole numbers need none. Another value, and a wrong one, goes to Typer's own reader, which words the error.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final, get_args, get_origin

import typer

READER: Final = "_runtime_param"  # the attribute of Typer's parameters; tests/cli/test_light.py fails if it is renamed


@dataclass(frozen=True, slots=True)
class LightReader:
    """A reader of plain values, in the place of Typer's."""

    is_plain: Callable[[Any], bool]
    convert: Callable[[Any], Any]
    typers: Callable[[], Any]  # builds Typer's own reader

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        return self.convert(value) if self.is_plain(value) else self.typers().coerce(value, param=param, ctx=ctx)


def lighten(command: Any) -> None:
    """Give the parameters of a command, and of all below it, light readers."""
    top = typer.Context(command, **command.context_settings)
    for each in _commands(command):
        for param in each.get_params(typer.Context(each, parent=top)):  # with --help, which is made here and kept
            reader = _reader(param)
            if reader is not None and getattr(param, READER, "") is None:
                setattr(param, READER, reader)


def _commands(command: Any) -> Iterator[Any]:
    yield command
    for below in getattr(command, "commands", {}).values():
        yield from _commands(below)


def _reader(param: Any) -> LightReader | None:
    descriptor = getattr(param, "type_descriptor", None)
    if descriptor is None or getattr(descriptor.parameter_info, "parser", None) is not None:
        return None

    def typers() -> Any:
        setattr(param, READER, None)
        return param.get_runtime_param()

    match _without_none(descriptor.annotation):
        case kind if kind is str:
            return LightReader(lambda value: isinstance(value, str), str, typers)
        case kind if kind is bool:
            return LightReader(lambda value: isinstance(value, bool), bool, typers)
        case kind if kind is int and not descriptor.is_ranged:
            return LightReader(_is_whole, int, typers)
        case kind if get_origin(kind) is list and get_args(kind) == (str,):
            return LightReader(_are_texts, list, typers)
    return None


def _without_none(annotation: Any) -> Any:
    kinds = [each for each in get_args(annotation) if each is not NoneType]
    return kinds[0] if len(kinds) == 1 and NoneType in get_args(annotation) else annotation


def _is_whole(value: Any) -> bool:
    return type(value) is int or (isinstance(value, str) and value.isascii() and value.isdigit())


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
