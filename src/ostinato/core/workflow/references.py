"""References: `{"$ref": "extract.result.count"}` stands for what another step returned, or what the trigger brought.

    extract.result.count    what the step `extract` returned, and in it `count`; numbers are places in a list
    payload.region          what the trigger brought
    trigger.timestamp       what there is to say about the trigger itself

They are resolved when the step is queued.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ostinato.core.errors import Invalid

REF: Final = "$ref"
PAYLOAD: Final = "payload"
TRIGGER: Final = "trigger"
RESULT: Final = "result"
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
PART: Final = re.compile(r"[^.\s]{1,200}")


class Unresolved(Invalid):
    """A reference to something that is not there."""


@dataclass(frozen=True, slots=True)
class StepReference:
    """The source of a value: a step, the payload or the trigger, and the path from there."""

    root: str
    path: tuple[str, ...]

    @property
    def text(self) -> str:
        return ".".join((self.root, *self.path))


def read_reference(text: object, place: str) -> StepReference:
    """A reference from its text; `place` says where it stands."""
    if not isinstance(text, str):
        raise Invalid(f"{place}: a reference is text like 'extract.result.count'.")
    root, *path = text.split(".")
    if not NAME.fullmatch(root) or not all(PART.fullmatch(part) for part in path):
        raise Invalid(f"{place}: {text[:100]!r} is not a reference; write it like 'extract.result.count'.")
    return StepReference(root, tuple(path))


def references_in(value: Any, place: str) -> Iterator[tuple[str, StepReference]]:
    """Every reference in a JSON value, with its place."""
    match value:
        case {"$ref": text, **others} if not others:
            yield place, read_reference(text, place)
        case dict():
            for name, each in value.items():
                yield from references_in(each, f"{place}.{name}")
        case list():
            for index, each in enumerate(value):
                yield from references_in(each, f"{place}[{index}]")


def resolved(value: Any, values: Mapping[str, Any]) -> Any:
    """A JSON value with what its references stand for; `values` are by the text of the reference."""
    match value:
        case {"$ref": str(text), **others} if not others:
            if text not in values:
                raise Unresolved(f"There is nothing at {text!r}.")
            return values[text]
        case dict():
            return {name: resolved(each, values) for name, each in value.items()}
        case list():
            return [resolved(each, values) for each in value]
        case _:
            return value


def look_up(value: Any, path: tuple[str, ...]) -> Any:
    """Return the value at the end of a path; raise Unresolved if the path ends before."""
    for part in path:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise Unresolved(f"There is no {part!r}.")
    return value
