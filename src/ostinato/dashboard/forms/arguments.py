"""Fields for the arguments of a task, by its JSON schema; other arguments are written as JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ostinato.core.errors import Invalid, NotFound
from ostinato.core.task_schema import WHOLE_OBJECT
from ostinato.dashboard.forms.fields import (
    CHOICE,
    DECIMAL,
    OBJECT,
    SWITCH,
    WHOLE,
    Field,
    WidgetKind,
    value_of,
    written,
)
from ostinato.dashboard.forms.job import FIELDS
from ostinato.service import Service
from ostinato.service.tasks import TaskView
from ostinato.shapes.base import WrongField
from ostinato.shapes.documents import read_json

PREFIX: Final = "arg:"
FURTHER: Final = FIELDS["args"]
LONGEST_DEFAULT: Final = 60


def _json_or_text(text: str) -> Any:
    """Read a text as JSON; anything else stays text."""
    try:
        return read_json(text)
    except Invalid:
        if text.strip()[:1] in ("{", "[", '"'):
            raise
        return text


def _lines(text: str) -> Any:
    return text.split("\n")


LINE: Final = WidgetKind("line")
LONG: Final = WidgetKind("area")
LINES: Final = WidgetKind("area", _lines)
ANYTHING: Final = WidgetKind("line", _json_or_text)


@dataclass(frozen=True, slots=True)
class Arguments:
    """The known arguments of a task."""

    fields: Mapping[str, Field] = field(default_factory=dict)
    is_known: bool = False
    is_open: bool = True  # whether the task takes other names than those of the fields
    about: str = ""
    off: str = ""

    @classmethod
    def of(cls, service: Service, task: str) -> "Arguments":
        """Return the arguments of a task; without fields if no schema of the task is known."""
        try:
            view = service.tasks.get(task) if task else TaskView("", "elsewhere")
        except NotFound:
            return cls()
        return cls() if view.args is None else cls.of_schema(view.args, view.help, view.off or "")

    @classmethod
    def of_schema(cls, schema: Mapping[str, Any], about: str = "", off: str = "") -> "Arguments":
        """Return the arguments that a JSON schema describes."""
        properties, needed = schema["properties"], schema["required"]
        takes_whole = next(iter(properties), "") == WHOLE_OBJECT
        fields = {PREFIX + name: _field(name, spec, name in needed) for name, spec in properties.items()}
        is_open = takes_whole or bool(schema["additionalProperties"])
        return cls({} if takes_whole else fields, True, is_open, about, off)

    def texts_of(self, args: Mapping[str, Any]) -> dict[str, str]:
        """Write args as texts: in their fields if they read back the same, the rest as JSON."""
        own = {
            PREFIX + name: text
            for name, value in args.items()
            if (one := self.fields.get(PREFIX + name)) is not None
            and _reads_back(one, text := _text(one, value), value)
        }
        rest = {name: value for name, value in args.items() if PREFIX + name not in own}
        return {**own, "args": written(rest)}

    def read(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Read the typed args."""
        rest = value_of(FURTHER, texts["args"]) if texts.get("args", "").strip() else {}
        if not isinstance(rest, dict):
            raise WrongField("args", 'Arguments are a JSON object: {"name": value}.')
        own = {
            name.removeprefix(PREFIX): value_of(one, texts[name])
            for name, one in self.fields.items()
            if texts.get(name, "") != ""
        }
        for name in own.keys() & rest.keys():
            raise WrongField(PREFIX + name, f"{name} is also in the further arguments: set it once.")
        return {**rest, **own}

    def flaws(self, args: Mapping[str, Any]) -> dict[str, str]:
        """Return the errors of args, by field."""
        if not self.is_known or (self.is_open and not self.fields):
            return {}
        named = {name.removeprefix(PREFIX): one for name, one in self.fields.items()}
        found = {one.name: sentence for name, one in named.items() if (sentence := _flaw(one, name, args))}
        if not self.is_open and (strange := sorted(args.keys() - named.keys())):
            found["args"] = f"The task takes no {', '.join(strange)}; it takes {', '.join(named) or 'no arguments'}."
        return found


def _flaw(one: Field, name: str, args: Mapping[str, Any]) -> str:
    """Return the error of an argument; a text that is not a number has stayed a text."""
    if name not in args:
        return "It is required." if one.needed else ""
    value = args[name]
    if one.kind is WHOLE and (isinstance(value, bool) or not isinstance(value, int | None)):
        return f"It must be a whole number, not {value!r}."
    if one.kind is DECIMAL and (isinstance(value, bool) or not isinstance(value, int | float | None)):
        return f"It must be a number, not {value!r}."
    return ""


def _field(name: str, spec: Mapping[str, Any], needed: bool) -> Field:
    kind, hint, choices = _kind(spec)
    default = "" if needed or spec.get("default") is None else f"default: {_short(spec['default'])}"
    if choices:
        nothing = "choose" if needed else default or "nothing"
        choices = (("", nothing), *choices)
    about = " ".join(filter(None, [spec.get("description", ""), hint]))
    return Field(PREFIX + name, name, kind, about, default, choices, needed)


def _short(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    text = default if isinstance(default, str) and default else json.dumps(default, ensure_ascii=False)
    return text if len(text) <= LONGEST_DEFAULT else text[:LONGEST_DEFAULT] + "…"


def _kind(spec: Mapping[str, Any]) -> tuple[WidgetKind, str, tuple[tuple[str, str], ...]]:
    """Return the widget of a property, its hint and its choices."""
    options = [each for each in spec.get("anyOf", ()) if each.get("type") != "null"]
    if spec.get("format") == "duration":
        return LINE, "Like 30s, 5m or 1h30m.", ()
    if len(options) == 1:
        return _kind(options[0])
    if (names := spec.get("enum")) and all(isinstance(each, str) for each in names):
        return CHOICE, "", tuple((each, each) for each in names)
    match spec.get("type"):
        case "string":
            return (LONG if spec.get("format") == "multiline" else LINE), "", ()
        case "integer":
            return WHOLE, "A whole number.", ()
        case "number":
            return DECIMAL, "A number.", ()
        case "boolean":
            return SWITCH, "", (("true", "yes"), ("false", "no"))
        case "array" if spec.get("items", {}).get("type") == "string":
            return LINES, "One in each line.", ()
        case "array" | "object" as kind:
            return OBJECT, f"JSON: {'a list' if kind == 'array' else 'an object'}.", ()
        case _:
            return ANYTHING, "JSON, or text.", ()


def _text(one: Field, value: Any) -> str:
    if one.kind is LINES:
        return "\n".join(value) if isinstance(value, list) and all(isinstance(each, str) for each in value) else ""
    if one.kind.widget == "json":
        return json.dumps(value, indent=2, ensure_ascii=False)
    if one.kind is ANYTHING and not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value) if isinstance(value, float) else written(value)


def _reads_back(one: Field, text: str, value: Any) -> bool:
    """Return True if a field with this text gives back this value."""
    if text == "" or (one.kind is CHOICE and text not in dict(one.choices)):
        return False
    try:
        again = one.kind.read(text)
    except Invalid:
        return False
    return again == value and type(again) is type(value)
