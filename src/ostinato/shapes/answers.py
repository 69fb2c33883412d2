"""JSON that goes out.

An answer is a dataclass; a field is spelled once, with its source in the value that it is read from. Both HTTP and the
command line write it with `written`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, Self, dataclass_transform, get_type_hints
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Out:
    """The source of a field: an attribute, `a.b` too, and what converts it. Without one it has the field's own name."""

    source: str = ""
    convert: Callable[[Any], Any] | None = None


def told(description: str = "", **schema: Any) -> Any:
    """Describe a field in the OpenAPI document."""
    about = {"description": description} if description else {}
    return field(metadata={**about, **({"json_schema_extra": schema} if schema else {})})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(told, field))
class JsonObject:
    """Base class of answers and their parts."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        dataclass(kw_only=True)(cls)  # frozen for the type checker only, as in core/hot.py


class Answer(JsonObject):
    """Base class of answers that are read from one value."""

    @classmethod
    def of(cls, value: Any) -> Self:
        """Read each field from its source."""
        sources = _sources(cls)  # type: ignore[arg-type]  # classes are hashable
        return cls(**{name: get(value) if convert is None else convert(get(value)) for name, get, convert in sources})


Convert = Callable[[Any], Any]


@cache
def _sources(kind: type[Any]) -> list[tuple[str, Convert, Convert | None]]:
    hints, found = get_type_hints(kind, include_extras=True), list[tuple[str, Convert, Convert | None]]()
    for each in fields(kind):
        out = next((one for one in getattr(hints[each.name], "__metadata__", ()) if isinstance(one, Out)), Out())
        found.append((each.name, attrgetter(out.source or each.name), out.convert))
    return found


def written(answer: object) -> str:
    """Write an answer as JSON text."""
    return json.dumps(answer, default=_plain, ensure_ascii=False, separators=(",", ":"))


def as_json(answer: object) -> Any:
    """Return an answer as the reader of its JSON sees it."""
    return json.loads(written(answer))


def _plain(value: object) -> Any:
    match value:
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case UUID():
            return str(value)
        case Mapping():
            return dict(value)
        case frozenset() | set():
            return list(value)
        case _ if is_dataclass(kind := type(value)):
            return {name: getattr(value, name) for name in field_names(kind)}
    return value.model_dump()  # type: ignore[attr-defined]  # of pydantic


@cache
def field_names(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of an answer's fields."""
    return tuple(each.name for each in fields(kind))
