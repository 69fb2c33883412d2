"""Answers: JSON that goes out. A field is spelled once, with its source in the value that it is read from."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any, Self

from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Out:
    """The source of a field: an attribute, `a.b` too, and what converts it. Without one it has the field's own name."""

    source: str = ""
    convert: Callable[[Any], Any] | None = None


class Answer(BaseModel):
    """Base class of answers that are read from one value."""

    @classmethod
    def of(cls, value: Any) -> Self:
        """Read each field from its source."""
        return cls(
            **{name: get(value) if convert is None else convert(get(value)) for name, get, convert in _sources(cls)}
        )


Convert = Callable[[Any], Any]


@cache
def _sources(kind: type[BaseModel]) -> list[tuple[str, Convert, Convert | None]]:
    found: list[tuple[str, Convert, Convert | None]] = []
    for name, field in kind.model_fields.items():
        out = next((each for each in field.metadata if isinstance(each, Out)), Out())
        found.append((name, attrgetter(out.source or name), out.convert))
    return found
