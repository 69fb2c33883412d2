"""Texts with placeholders: `{{ job.name }}` is replaced by the value of that name.

A placeholder holds a name, or names joined by dots; there are no expressions, so nothing is executed. In a JSON value
a text that is one placeholder alone becomes the value itself, of any type. So a value can never change the shape of the
JSON around it. `\\{{` is two plain braces.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ostinato.core.arguments import Flaw

HOLE: Final = re.compile(r"\\?\{\{(.*?)\}\}", re.DOTALL)
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_-]+)*", re.ASCII)

Names = Mapping[str, Any]


def fill(value: Any, names: Names, only: str = "") -> Any:
    """Fill every placeholder in a JSON value, except in the names of its objects; Flaw if a name is unknown.

    `only`: fill the placeholders whose name begins so; leave the others, and plain braces, for a later call.
    """
    match value:
        case str():
            alone = HOLE.fullmatch(value)
            if alone is not None and not value.startswith("\\") and "{{" not in alone[1]:
                name = alone[1].strip()
                return look_up(name, names) if name.startswith(only) else value
            return fill_text(value, names, only=only)
        case list():
            return [fill(each, names, only) for each in value]
        case dict():
            return {name: fill(each, names, only) for name, each in value.items()}
        case _:
            return value


def fill_text(text: str, names: Names, write: Callable[[str], str] = str, only: str = "") -> str:
    """Fill every placeholder in a text. `write` makes a value fit its place."""

    def filled(hole: re.Match[str]) -> str:
        if hole[0].startswith("\\"):
            return hole[0] if only else hole[0][1:]
        name = hole[1].strip()
        return write(as_text(look_up(name, names))) if name.startswith(only) else hole[0]

    return HOLE.sub(filled, text)


def look_up(name: str, names: Names) -> Any:
    """Return the value of a name."""
    if not NAME.fullmatch(name):
        raise Flaw(
            f"has {{{{ {name[:60]} }}}}, and between braces stands a name, such as due_at; plain braces are \\{{{{."
        )
    found: Any = names
    for part in name.split("."):
        try:
            found = found[int(part)] if isinstance(found, list | tuple) else found[part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise Flaw(f"has {{{{ {name} }}}}, and there is nothing of that name.") from None
    return found


def holes(value: Any) -> Iterator[str]:
    """Yield the names between braces, anywhere in a JSON value."""
    match value:
        case str():
            yield from (hole[1].strip() for hole in HOLE.finditer(value) if not hole[0].startswith("\\"))
        case list() | tuple():
            for each in value:
                yield from holes(each)
        case Mapping():
            for each in value.values():
                yield from holes(each)


def as_text(value: Any) -> str:
    """Write a value inside a text: text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)
