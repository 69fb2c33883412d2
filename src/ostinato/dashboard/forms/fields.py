"""Fields: how a value reads as text, how a text becomes a value again, and their differences."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

import yaml

from ostinato.core.errors import Invalid
from ostinato.core.times import format_duration
from ostinato.shapes.base import WrongField
from ostinato.shapes.documents import check_shape, read_json, read_yaml

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


# -- Differences of an edit: the values before and after, line by line

UNSET: Final = "nothing"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One value that would change."""

    name: str
    before: str
    after: str


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[DiffLine]:
    """List the differences between two answers, down to nested fields."""
    return [line for name in after for line in _lines(name, before.get(name), after[name])]


def _lines(name: str, before: Any, after: Any) -> Iterator[DiffLine]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict) and name != "schedule":
        for inner in dict.fromkeys([*before, *after]):
            yield from _lines(f"{name}.{inner}", before.get(inner), after.get(inner))
    else:
        yield DiffLine(name, _shown(before), _shown(after))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {written(each)}" for name, each in value.items()) or UNSET
    return written(value) or UNSET


def digest(lines: list[DiffLine]) -> str:
    """Return a hash of the lines, to check that a saved edit is the reviewed one."""
    text = json.dumps([[line.name, line.before, line.after] for line in lines])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


# -- Reading of larger values in JSON or YAML, and the line numbers of their errors.
#
# An error names a place (`nodes[2].after[0]: …`); `line_of` finds this place in the typed text.

LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
PLACE: Final = re.compile(r"^([A-Za-z_][\w-]*(?:\.[\w$-]+|\[\d+\])*)(?=[:. ]|$)")
PART: Final = re.compile(r"[\w$-]+")


def read(text: str) -> Any:
    """Read JSON if the text begins like JSON, else YAML without anchors; raise Invalid with the line."""
    if text.lstrip()[:1] in ("[", "{"):
        return read_json(text, "This")
    documents = read_yaml(text, "This")
    if len(documents) > 1:
        raise Invalid("This has several documents (---): write one.")
    return documents[0] if documents else None


def line_of(text: str, sentence: str, root: str) -> int | None:
    """Find the line of the place that an error names, or the nearest one; `root` names the whole text."""
    found = PLACE.match(sentence)
    if found is None:
        return None
    parts = PART.findall(found[1])
    try:
        check_shape(text, "This")
        node = yaml.compose(text, Loader=LOADER)
    except (yaml.YAMLError, Invalid, ValueError):
        return None
    return _line(node, parts[1:] if parts[0] == root and not _has(node, root) else parts)


def _line(node: Any, parts: Sequence[str]) -> int | None:
    if node is None:
        return None
    for part in parts:
        inner = _node_inside(node, part)
        if inner is None:
            break
        node = inner
    return int(node.start_mark.line) + 1


def _node_inside(node: Any, part: str) -> Any:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if getattr(key, "value", None) == part), None)
    if isinstance(node, yaml.SequenceNode) and part.isdecimal() and int(part) < len(node.value):
        return node.value[int(part)]
    return None


def _has(node: Any, name: str) -> bool:
    return _node_inside(node, name) is not None
