"""JSON that goes out. An error has `detail`, a sentence for a person, and `errors`, one for each wrong field.

An answer is a dataclass; a field is spelled once, with its source in the value that it is read from. Both HTTP and the
command line write it with `written`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, Final, Self, dataclass_transform, get_type_hints
from uuid import UUID

from ostinato.core.errors import (
    Conflict,
    DatabaseReplaced,
    Forbidden,
    Invalid,
    NotFound,
    OstinatoError,
    Stale,
    StoreUnavailable,
    TooLarge,
    TooManyRequests,
    TooSlow,
    Unauthorized,
    WrongArgument,
    WrongState,
)


@dataclass(frozen=True, slots=True)
class Out:
    """The source of a field: an attribute, `a.b` too, and what converts it. Without one it has the field's own name."""

    source: str = ""
    convert: Callable[[Any], Any] | None = None


def described(description: str = "", **schema: Any) -> Any:
    """Describe a field in the OpenAPI document."""
    about = {"description": description} if description else {}
    return field(metadata={**about, **({"json_schema_extra": schema} if schema else {})})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(described, field))
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


# -- Shapes of errors: `detail` is a sentence for a person, `errors` has one entry for each wrong field

STATUS: Final[tuple[tuple[type[OstinatoError], int], ...]] = (
    (Invalid, 422),
    (NotFound, 404),
    (Stale, 412),
    (WrongState, 400),
    (Conflict, 409),
    (Unauthorized, 401),
    (Forbidden, 403),
    (TooManyRequests, 429),
    (TooLarge, 413),
    (TooSlow, 408),
    (StoreUnavailable, 503),
    (DatabaseReplaced, 503),
)
UNKNOWN: Final = "unknown_fields"  # the kind of an error of pydantic that names several fields
MOST_FIELDS: Final = 20  # wrong fields listed in `errors`


class FieldError(JsonObject):
    """A wrong field, with the reason."""

    field: str
    message: str


class ErrorAnswer(JsonObject):
    """An error."""

    detail: str
    errors: list[FieldError] | None = None


def status_of(error: OstinatoError) -> int:
    """Return the HTTP status of an error; 500 if no input caused it."""
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)


def answer_of(error: OstinatoError) -> ErrorAnswer:
    """Return the answer to an error. The details of an internal error (500) stay in the log."""
    if status_of(error) == 500:
        return ErrorAnswer(detail="Internal error; the log of the server has the details.")
    if isinstance(error, WrongArgument):
        return ErrorAnswer(detail=str(error), errors=[FieldError(field=error.field, message=str(error))])
    return ErrorAnswer(detail=str(error))


def error_text(answer: ErrorAnswer) -> str:
    """Write the answer to an error as JSON text, without `errors` where it names no field."""
    return written({"detail": answer.detail, **({"errors": answer.errors} if answer.errors else {})})


def refused(flaws: Sequence[Mapping[str, Any]]) -> ErrorAnswer:
    """Turn the errors of pydantic into sentences."""
    errors = [line for flaw in flaws for line in _lines(flaw)][:MOST_FIELDS]
    sentences = [line.message if line.field in line.message else f"{line.field}: {line.message}" for line in errors]
    return ErrorAnswer(detail=" ".join(dict.fromkeys(sentences)) or "The request cannot be read.", errors=errors)


def _lines(flaw: Mapping[str, Any]) -> Iterator[FieldError]:
    where = _field(flaw["loc"])
    if flaw["type"] == UNKNOWN:
        for name, sentence in flaw["ctx"]["of"].items():
            yield FieldError(field=name[:100], message=sentence)
        return
    yield FieldError(field=where, message=_sentence(flaw))


def _field(loc: Sequence[Any]) -> str:
    """Return the path of a field, such as `backoff.base`, without `body` or `query`."""
    names = [str(part) for part in loc if part not in ("body", "query", "path", "header")]
    return ".".join(names)[:100] or "body"


def _sentence(flaw: Mapping[str, Any]) -> str:
    match flaw["type"]:
        case "value_error":
            return str(flaw["ctx"]["error"])
        case "missing":
            return "It is required."
        case "model_attributes_type" | "dict_type":
            return "It must be a JSON object."
        case _:
            text = str(flaw["msg"]).rstrip(".")
            return f"{text}, not {_shown(flaw.get('input'))}."


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:60] + "…"
