"""Arguments of a built-in task as a frozen dataclass: each field declares its type, limits and help.

@dataclass(frozen=True, slots=True, kw_only=True)
    class PingArgs:
        url: str = arg(URL, "URL to call.")
        times: int = arg(whole(1, 10), "Number of calls.", 1)

`read` makes a value from JSON, or raises an error that names the field; `schema` describes it for people, forms and
programs. A rule over several fields stands in `__post_init__`, and raises a Flaw.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Final, Generic, TypeVar

from ostinato.core.addresses import check_url
from ostinato.core.auth import FIELDS as AUTH_FIELDS
from ostinato.core.auth import Auth, check_reference, parse_auth
from ostinato.core.errors import Invalid, WrongArgument
from ostinato.core.payload import as_whole
from ostinato.core.times import format_duration, parse_duration

T = TypeVar("T")

NEEDED: Final = object()
MOST_OF_A_LIST: Final = 10_000


class Flaw(Exception):
    """An error about one field; its text follows the field's name: "must be text, not 3"."""

    def __init__(self, rest: str, path: str = "") -> None:
        super().__init__(rest)
        self.rest, self.path = rest, path

    def under(self, name: str) -> "Flaw":
        """Return the same error with the name of the outer field before its path."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        return Flaw(self.rest, f"{name}{joint}{self.path}")


@dataclass(frozen=True, slots=True)
class FieldKind(Generic[T]):
    """The type of a field: its JSON schema and its reader. `read` raises Flaw."""

    schema: Mapping[str, Any]
    read: Callable[[Any], T]


def arg(kind: FieldKind[T], help: str, default: Any = NEEDED) -> T:
    """Declare a field of an args type. A default is written as in JSON; without one the field is required."""
    metadata: dict[str, Any] = {"kind": kind, "help": help, "default": default}
    if default is NEEDED:
        made: T = field(metadata=metadata)
        return made
    value = None if default is None else kind.read(default)
    return field(default=value, metadata=metadata) if _is_plain(value) else _made_anew(kind, default, metadata)  # type: ignore[return-value]


def read(kind: type[T], given: Any, where: str = "args") -> T:
    """Read JSON into an args type; WrongArgument names the wrong field."""
    try:
        return of(kind).read(given)
    except Flaw as flaw:
        path = flaw.under(where).path
        raise WrongArgument(path, f"{path} {flaw.rest}") from None


def schema(kind: type[Any]) -> dict[str, Any]:
    """Describe an args type as JSON schema."""
    return dict(of(kind).schema)


def of(kind: type[T]) -> FieldKind[T]:
    """Return an args type as the kind of a field."""
    lines = {line.name: line for line in fields(kind)}  # type: ignore[arg-type]
    known = {name: line.metadata["kind"] for name, line in lines.items()}
    needed = [name for name, line in lines.items() if line.metadata["default"] is NEEDED]

    def read_fields(given: Any) -> T:
        if not isinstance(given, dict):
            raise Flaw(f"must be a JSON object, not {shown(given)}.")
        for name in given.keys() - known.keys():
            raise Flaw(f"does not exist{_did_you_mean(name, known)}", str(name)[:100])
        said = {name: value for name, value in given.items() if value is not None}
        for name in needed:
            if name not in said:
                raise Flaw(f"is required: {lines[name].metadata['help']}", name)
        return kind(**{name: _read_as(known[name], value, name) for name, value in said.items()})

    properties = {name: _property(line.metadata) for name, line in lines.items()}
    described = {
        "type": "object",
        "properties": properties,
        "required": needed,
        "additionalProperties": False,
    }
    return FieldKind(described, read_fields)


def _property(metadata: Mapping[str, Any]) -> dict[str, Any]:
    default = {} if metadata["default"] is NEEDED else {"default": metadata["default"]}
    return {**metadata["kind"].schema, "description": metadata["help"], **default}


def _read_as(kind: FieldKind[T], value: Any, name: str) -> T:
    try:
        return kind.read(value)
    except Flaw as flaw:
        raise flaw.under(name) from None


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool | tuple | timedelta)


def _made_anew(kind: FieldKind[T], default: Any, metadata: Mapping[str, Any]) -> Any:
    return field(default_factory=lambda: kind.read(default), metadata=metadata)


# -- kinds


def text(longest: int = 10_000, *, empty: bool = True, lines: bool = False) -> FieldKind[str]:
    """Accept text; with `lines` it may have several lines, and a form shows a large field."""

    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise Flaw(f"must be text, not {shown(value)}.")
        if len(value) > longest:
            raise Flaw(f"is longer than {longest:,} characters.")
        if not value and not empty:
            raise Flaw("cannot be empty.")
        if "\0" in value:
            raise Flaw("cannot contain a NUL character.")
        return value

    format_ = {"format": "multiline"} if lines else {}
    return FieldKind({"type": "string", **format_, "maxLength": longest, **({} if empty else {"minLength": 1})}, read)


def whole(least: int, most: int) -> FieldKind[int]:
    def read(value: Any) -> int:
        value = as_whole(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise Flaw(f"must be a whole number from {least:,} to {most:,}, not {shown(value)}.")
        return value

    return FieldKind({"type": "integer", "minimum": least, "maximum": most}, read)


def number(least: float, most: float) -> FieldKind[float]:
    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise Flaw(f"must be a number from {least:,} to {most:,}, not {shown(value)}.")
        return float(value)

    return FieldKind({"type": "number", "minimum": least, "maximum": most}, read)


def switch() -> FieldKind[bool]:
    def read(value: Any) -> bool:
        if not isinstance(value, bool):
            raise Flaw(f"must be true or false, not {shown(value)}.")
        return value

    return FieldKind({"type": "boolean"}, read)


def choice(*options: str) -> FieldKind[str]:
    def read(value: Any) -> str:
        if value not in options:
            raise Flaw(f"must be one of {', '.join(options)}, not {shown(value)}.")
        return str(value)

    return FieldKind({"type": "string", "enum": list(options)}, read)


def span(least: str, most: str) -> FieldKind[timedelta]:
    """Accept a duration: `30s`, or a number of seconds."""
    shortest, longest = parse_duration(least), parse_duration(most)

    def read(value: Any) -> timedelta:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise Flaw(f"must be a duration like 30s, 5m or 1h30m, not {shown(value)}.")
        try:
            found = parse_duration(value)
        except Invalid as error:
            raise Flaw(f"cannot be read. {error}") from None
        if not shortest <= found <= longest:
            raise Flaw(f"must be from {least} to {most}, not {format_duration(found)}.")
        return found

    about = {"anyOf": [{"type": "string"}, {"type": "number"}], "format": "duration"}
    return FieldKind(about, read)


def many(kind: FieldKind[T], most: int = MOST_OF_A_LIST, least: int = 0) -> FieldKind[tuple[T, ...]]:
    """Accept a list."""

    def read(value: Any) -> tuple[T, ...]:
        if not isinstance(value, list | tuple):
            raise Flaw(f"must be a list, not {shown(value)}.")
        if not least <= len(value) <= most:
            raise Flaw(f"must have {least:,} to {most:,} entries, not {len(value):,}.")
        return tuple(_read_as(kind, each, f"[{index}]") for index, each in enumerate(value))

    return FieldKind({"type": "array", "items": dict(kind.schema), "minItems": least, "maxItems": most}, read)


def mapping(kind: FieldKind[T], most: int = 1000) -> FieldKind[Mapping[str, T]]:
    """Accept an object with any names and values of one kind."""

    def read(value: Any) -> Mapping[str, T]:
        if not isinstance(value, dict):
            raise Flaw(f"must be a JSON object, not {shown(value)}.")
        if len(value) > most:
            raise Flaw(f"has more than {most:,} entries.")
        return {str(name): _read_as(kind, each, str(name)[:100]) for name, each in value.items()}

    return FieldKind({"type": "object", "additionalProperties": dict(kind.schema)}, read)


def anything() -> FieldKind[Any]:
    """Any JSON."""
    return FieldKind({}, lambda value: value)


def _url(value: Any) -> str:
    try:
        return check_url(text().read(value), "")
    except Invalid as error:
        raise Flaw(str(error).strip()) from None


URL: Final = FieldKind({"type": "string", "format": "uri", "maxLength": 2048}, _url)


def _reference(value: Any) -> str:
    try:
        return check_reference(value, "")
    except Invalid as error:
        raise Flaw(str(error).strip()) from None


def _auth(value: Any) -> Auth:
    try:
        return parse_auth(value, "auth")
    except Invalid as error:
        where, _, rest = str(error).partition(" ")
        raise Flaw(rest, where.removeprefix("auth").lstrip(".")) from None


# The place of a secret: env:SECRET_NAME, file:/run/secrets/NAME.
SECRET: Final = FieldKind({"type": "string", "format": "secret-reference"}, _reference)
AUTH: Final = FieldKind(
    {
        "type": "object",
        "format": "auth",
        "properties": {"type": {"type": "string", "enum": list(AUTH_FIELDS)}},
        "required": ["type"],
    },
    _auth,
)


def shown(value: object) -> str:
    """Return a value as a sentence quotes it."""
    written = repr(value)
    return written if len(written) <= 60 else written[:60] + "…"


def _did_you_mean(name: object, known: Mapping[str, Any]) -> str:
    close = get_close_matches(str(name)[:100], sorted(known), n=1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(known)}."


# -- Texts with placeholders: `{{ job.name }}` is replaced by the value of that name.
#
# A placeholder holds a name, or names joined by dots; there are no expressions, so nothing is executed. In a JSON value
# a text that is one placeholder alone becomes the value itself, of any type. So a value can never change the shape of
# the
# JSON around it. `\{{` is two plain braces.

PLACEHOLDER: Final = re.compile(r"\\?\{\{(.*?)\}\}", re.DOTALL)
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_-]+)*", re.ASCII)

Names = Mapping[str, Any]


def fill(value: Any, names: Names, only: str = "") -> Any:
    """Fill every placeholder in a JSON value, except in the names of its objects; Flaw if a name is unknown.

    `only`: fill the placeholders whose name begins so; leave the others, and plain braces, for a later call.
    """
    match value:
        case str():
            alone = PLACEHOLDER.fullmatch(value)
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

    def filled(found: re.Match[str]) -> str:
        if found[0].startswith("\\"):
            return found[0] if only else found[0][1:]
        name = found[1].strip()
        return write(as_text(look_up(name, names))) if name.startswith(only) else found[0]

    return PLACEHOLDER.sub(filled, text)


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


def placeholders(value: Any) -> Iterator[str]:
    """Yield the names between braces, anywhere in a JSON value."""
    match value:
        case str():
            yield from (found[1].strip() for found in PLACEHOLDER.finditer(value) if not found[0].startswith("\\"))
        case list() | tuple():
            for each in value:
                yield from placeholders(each)
        case Mapping():
            for each in value.values():
                yield from placeholders(each)


def as_text(value: Any) -> str:
    """Write a value inside a text: text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)
