"""References: `{"$ref": "extract.result.count"}` stands for a value of another step or of the trigger.

    extract.result.count    `count` in the result of the step `extract`; numbers are places in a list
    payload.region          a value of the trigger's payload
    trigger.timestamp       a fact about the trigger itself

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
    """Read a reference from its text; `place` names its field for errors."""
    if not isinstance(text, str):
        raise Invalid(f"{place}: a reference is text like 'extract.result.count'.")
    root, *path = text.split(".")
    if not NAME.fullmatch(root) or not all(PART.fullmatch(part) for part in path):
        raise Invalid(f"{place}: {text[:100]!r} is not a reference; write it like 'extract.result.count'.")
    return StepReference(root, tuple(path))


def references_in(value: Any, place: str) -> Iterator[tuple[str, StepReference]]:
    """Yield every reference in a JSON value, with its place."""
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
    """Replace the references in a JSON value; `values` holds their values by the text of the reference."""
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
