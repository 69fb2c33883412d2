"""Fields: how a value reads as text, and how a text becomes a value again."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from ostinato.core.duration import format_duration
from ostinato.core.errors import Invalid
from ostinato.shapes.base import WrongField
from ostinato.shapes.documents import read_json

WHOLE_NUMBER: Final = re.compile(r"[+-]?\d{1,30}", re.ASCII)
NUMBER: Final = re.compile(r"[+-]?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,3})?", re.ASCII)


def _as_it_is(text: str) -> Any:
    return text


def _whole(text: str) -> Any:
    return int(text) if WHOLE_NUMBER.fullmatch(text.strip()) else text


def _number(text: str) -> Any:
    text = text.strip()
    if WHOLE_NUMBER.fullmatch(text):
        return int(text)
    return float(text) if NUMBER.fullmatch(text) else text


def _switch(text: str) -> Any:
    return {"true": True, "false": False}.get(text, text)


def _listed(text: str) -> Any:
    return [part.strip() for part in re.split(r"[,\n]", text) if part.strip()]


def written(value: Any) -> str:
    """A value as somebody would type it."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case timedelta():
            return format_duration(value)
        case list() | tuple() if all(isinstance(each, str) for each in value):
            return ", ".join(value)
        case dict() | list():
            return json.dumps(value, indent=2, ensure_ascii=False) if value else ""
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return str(value)


@dataclass(frozen=True, slots=True)
class WidgetKind:
    """The widget and reader of a field."""

    widget: str  # which macro of forms.html
    read: Callable[[str], Any] = _as_it_is
    blank: Any = None  # what an emptied field means in an edit


TEXT: Final = WidgetKind("line", blank="")
OPTIONAL: Final = WidgetKind("line")
AREA: Final = WidgetKind("area", blank="")
WHOLE: Final = WidgetKind("number", _whole)
DECIMAL: Final = WidgetKind("line", _number)
SWITCH: Final = WidgetKind("choice", _switch)
CHOICE: Final = WidgetKind("choice")
LIST: Final = WidgetKind("line", _listed, blank=())
OBJECT: Final = WidgetKind("json", read_json, blank={})


@dataclass(frozen=True, slots=True)
class Field:
    """One thing to be said: `name` is that of the wire, with a dot for what is inside another."""

    name: str
    label: str
    kind: WidgetKind = OPTIONAL
    hint: str = ""
    default: str = ""  # shown where nothing was typed
    choices: Sequence[tuple[str, str]] = ()
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """Fields with what was typed in them, and what is wrong with it."""

    fields: Mapping[str, Field]
    texts: Mapping[str, str]
    errors: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str:
        return self.texts.get(name, "")

    @property
    def arguments(self) -> list[str]:
        """The fields that a task's signature has brought."""
        return [name for name in self.fields if name.startswith("arg:")]

    def touched(self, names: Iterable[str], initial: Mapping[str, str]) -> bool:
        """Return True if any of these fields was changed or is wrong: then they are not folded."""
        return any(
            name in self.errors or self.text(name) not in ("", initial.get(name, ""), self.fields[name].default)
            for name in names
        )

    def wrong(self, errors: Mapping[str, str]) -> "Form":
        """The same, with errors beside the fields that caused them."""
        return replace(self, errors={**self.errors, **placed(errors, self.fields)})

    def unplaced(self, errors: Mapping[str, str]) -> list[str]:
        """Return the errors that belong to no field."""
        known = placed(errors, self.fields).values()
        return [sentence for sentence in errors.values() if sentence not in known]


def table(*fields: Field) -> dict[str, Field]:
    return {each.name: each for each in fields}


def typed(form: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Return the sent texts of these fields."""
    return {name: str(form[name]) for name in names if name in form}


def value_of(one: Field, text: str) -> Any:
    """Read a text; raise WrongField if that is impossible."""
    try:
        return one.kind.read(text)
    except Invalid as error:
        raise WrongField(one.name, str(error)) from None


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """`backoff.base` inside `backoff`."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        outer, dot, inner = name.partition(".")
        if dot:
            found.setdefault(outer, {})[inner] = value
        else:
            found[outer] = value
    return found


def flat(answer: Mapping[str, Any], fields: Iterable[Field]) -> dict[str, str]:
    """The texts of fields, from an answer of ours as JSON."""
    return {one.name: written(_inside(answer, one.name)) for one in fields}


def _inside(answer: Mapping[str, Any], name: str) -> Any:
    outer, dot, inner = name.partition(".")
    value = answer.get(outer)
    return (value or {}).get(inner) if dot else value


def placed(errors: Mapping[str, str], fields: Mapping[str, Field]) -> dict[str, str]:
    """Errors by the nearest field: `backoff.steps.0` stands at `backoff.steps`, `window` at the first of its own."""
    found: dict[str, str] = {}
    for name, sentence in errors.items():
        place = _place(name, fields) or _named_in(sentence, fields)
        if place is not None:
            found.setdefault(place, sentence)
    return found


def _place(name: str, fields: Mapping[str, Field]) -> str | None:
    argument = re.match(r"(?:args|params)\.([^.\[]+)", name)
    if argument and f"arg:{argument[1]}" in fields:
        return f"arg:{argument[1]}"
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in fields:
            return prefix
        inside = [each for each in fields if each.startswith(f"{prefix}.")]
        if inside:
            return inside[0]
    return None


def _named_in(sentence: str, fields: Mapping[str, Field]) -> str | None:
    """The first field that a sentence of the rules names: "fixed_delay is for schedules that repeat."."""
    words = re.findall(r"[a-z_]+(?:\.[a-z_]+)?", sentence)
    return next((word for word in words if word in fields and word != "name"), None)
