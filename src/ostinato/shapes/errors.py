"""Shapes of errors: `detail` is a sentence for a person, `errors` has one entry for each wrong field."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

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
from ostinato.shapes.answers import JsonObject, written

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
