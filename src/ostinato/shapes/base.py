"""Base of all shapes. Unknown fields are refused with the nearest known name; numbers must be numbers."""

import difflib
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Final

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    StrictBool,
    StrictInt,
    StrictStr,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError

from ostinato.core.errors import WrongArgument
from ostinato.core.errors import WrongState as WrongState
from ostinato.core.payload import as_whole
from ostinato.core.times import parse_duration
from ostinato.shapes.answers import UNKNOWN
from ostinato.shapes.openapi import INSTANT, Within, pattern, read_instant

LARGEST: Final = 2**53 - 1  # the largest whole number that all JSON readers keep exactly


class WrongField(WrongArgument):
    """A wrong field of the body, for a reason that depends on other fields or on the job."""


class RequestBody(BaseModel):
    """Base class of request bodies."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    read_only: ClassVar[Collection[str]] = ()  # fields of answers that a request must not contain

    @model_validator(mode="before")
    @classmethod
    def _only_known(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        strange = [name for name in given if name not in cls.model_fields]
        unknown = {name: sentence for name in strange if (sentence := cls._about(name))}
        if unknown:
            raise PydanticCustomError(UNKNOWN, "{sentence}", {"sentence": " ".join(unknown.values()), "of": unknown})
        return {name: as_whole(value) for name, value in given.items()}

    @classmethod
    def _about(cls, name: str) -> str:
        """Return why an unknown field is refused; empty if it is accepted."""
        if name in cls.read_only:
            return f"{name} is read-only: leave it out."
        return f"There is no field {name[:100]!r}{did_you_mean(name, cls._known())}"

    @classmethod
    def _known(cls) -> Collection[str]:
        return cls.model_fields

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Document that other fields are refused, and that read-only fields are ignored where they are accepted."""
        schema = handler(core)
        written = handler.resolve_ref_schema(schema)
        if cls.model_config.get("extra") != "forbid":
            written["additionalProperties"] = False
            fields = written.setdefault("properties", {})
            for name in cls.read_only:
                fields.setdefault(name, {"readOnly": True})
        return schema

    def said(self) -> dict[str, Any]:
        """Return the given fields by name; null means left out."""
        values = ((name, getattr(self, name)) for name in self.model_fields_set)
        return {name: value for name, value in values if value is not None}


def did_you_mean(unknown: str, known: Collection[str]) -> str:
    """Return the end of a sentence about an unknown name."""
    close = difflib.get_close_matches(unknown[:100], sorted(known), n=1)
    return f"; did you mean {close[0]}?" if close else "."


def _span(value: object) -> timedelta:
    if isinstance(value, str | int | float | timedelta):
        return parse_duration(value)
    raise ValueError("A duration is text like 30s, 5m or 1h30m, or a number of seconds.")


shape = pattern

Text = StrictStr
Whole = StrictInt
Switch = StrictBool
Instant = Annotated[datetime, BeforeValidator(read_instant), WithJsonSchema(INSTANT, mode="validation")]
Duration = Annotated[timedelta, BeforeValidator(_span)]  # use it with Within, which documents the bounds
Span = Annotated[Duration, Within(timedelta(0))]
