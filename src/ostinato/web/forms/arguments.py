"""Arguments by the signature of a task that this process knows; what does not fit there is told as JSON."""

import inspect
import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args, get_origin

from ostinato.core.errors import Invalid, OstinatoError
from ostinato.task import Registry
from ostinato.web.forms.fields import (
    CHOICE,
    DECIMAL,
    OBJECT,
    SWITCH,
    WHOLE,
    Field,
    Kind,
    read_json,
    value_of,
    written,
)
from ostinato.web.forms.job import FIELDS
from ostinato.wire.words import WrongField

PREFIX: Final = "arg:"
FURTHER: Final = FIELDS["args"]
LINE: Final = Kind("line")
TYPES: Final[Mapping[str, tuple[Kind, str]]] = {
    "str": (LINE, "text"),
    "int": (WHOLE, "a whole number"),
    "float": (DECIMAL, "a number"),
    "bool": (SWITCH, ""),
}
YES_NO: Final = (("", "default"), ("true", "yes"), ("false", "no"))


def _json_or_text(text: str) -> Any:
    """What can be read as JSON is that; anything else is a text."""
    try:
        return read_json(text)
    except Invalid:
        if text.strip()[:1] in ("{", "[", '"'):
            raise
        return text


ANYTHING: Final = Kind("line", _json_or_text)


def fields_of(tasks: Registry, name: str) -> dict[str, Field]:
    """A field for each parameter; none, if the task is not known here or takes its args as a whole."""
    parameters = _parameters(tasks, name)
    if not parameters or parameters[0].name == "payload":
        return {}
    named = [each for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]
    return {PREFIX + each.name: _field(each) for each in named}


def is_open(tasks: Registry, name: str) -> bool:
    """Whether other names than those of the fields make sense."""
    parameters = _parameters(tasks, name)
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
    return takes_any or (not fields_of(tasks, name) and (bool(parameters) or not _is_known(tasks, name)))


def about(tasks: Registry, name: str) -> str:
    """What a task says of itself, in its first paragraph."""
    if not _is_known(tasks, name):
        return ""
    text = inspect.getdoc(tasks.get(name).function) or ""
    return " ".join(text.partition("\n\n")[0].split())


def texts_of(fields: Mapping[str, Field], args: Mapping[str, Any]) -> dict[str, str]:
    """Args as texts: those that their field would read back the same, and the rest as JSON."""
    own = {
        PREFIX + name: text
        for name, value in args.items()
        if (field := fields.get(PREFIX + name)) is not None
        and _reads_back(field, text := _text(field, value), value)
    }
    rest = {name: value for name, value in args.items() if PREFIX + name not in own}
    return {**own, "args": written(rest)}


def read(fields: Mapping[str, Field], texts: Mapping[str, str]) -> dict[str, Any]:
    """The args that were typed."""
    rest = value_of(FURTHER, texts["args"]) if texts.get("args", "").strip() else {}
    if not isinstance(rest, dict):
        raise WrongField("args", 'Arguments are a JSON object: {"name": value}.')
    own = {
        name.removeprefix(PREFIX): value_of(field, texts[name])
        for name, field in fields.items()
        if texts.get(name, "") != ""
    }
    for name in own.keys() & rest.keys():
        raise WrongField(PREFIX + name, f"{name} stands among the further arguments too: say it once.")
    return {**rest, **own}


def check(tasks: Registry, fields: Mapping[str, Field], task: str, args: dict[str, Any]) -> dict[str, str]:
    """What is wrong with args, by field; nothing is known of a task of other processes."""
    if not _is_known(tasks, task):
        return {}
    missing = {
        name: "It is needed: the task has no default for it."
        for name, field in fields.items()
        if field.needed and name.removeprefix(PREFIX) not in args
    }
    wrong = {
        name: sentence
        for name, field in fields.items()
        if name.removeprefix(PREFIX) in args and (sentence := _flaw(field, args[name.removeprefix(PREFIX)]))
    }
    if missing or wrong:
        return {**missing, **wrong}
    try:
        tasks.get(task).arguments(args)
    except Invalid as error:
        return {"args": str(error)}
    return {}


def _parameters(tasks: Registry, name: str) -> list[inspect.Parameter]:
    if not _is_known(tasks, name):
        return []
    return list(tasks.get(name).__signature__.parameters.values())


def _is_known(tasks: Registry, name: str) -> bool:
    if name not in tasks.names():
        return False
    try:
        tasks.get(name)
    except (OstinatoError, ImportError):  # a built-in one whose extra is not installed here
        return False
    return True


def _field(parameter: inspect.Parameter) -> Field:
    kind, hint, choices = _kind(parameter.annotation)
    needed = parameter.default is inspect.Parameter.empty
    default = "" if needed else f"default: {parameter.default!r}"[:80]
    if kind is SWITCH:
        choices = (
            ("", "choose" if needed else f"default: {'yes' if parameter.default else 'no'}"),
            *YES_NO[1:],
        )
    elif choices:
        choices = (("", default or "choose"), *choices)
    return Field(PREFIX + parameter.name, parameter.name, kind, hint, default, choices, needed)


def _kind(annotation: object) -> tuple[Kind, str, tuple[tuple[str, str], ...]]:
    if annotation is inspect.Parameter.empty:
        return ANYTHING, "JSON, or text", ()
    if get_origin(annotation) is Literal and all(isinstance(each, str) for each in get_args(annotation)):
        return CHOICE, "", tuple((each, each) for each in get_args(annotation))
    text = (
        annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "") or str(annotation)
    )
    if not isinstance(annotation, str) and get_args(annotation):
        text = str(annotation)
    kinds = {part.strip() for part in text.split("|")} - {"None"}
    if len(kinds) == 1 and (only := kinds.pop()) in TYPES:
        kind, hint = TYPES[only]
        return kind, hint, ()
    bare = re.sub(r"\b(?:typing|collections\.abc|builtins)\.", "", text)
    if bare.startswith(("dict", "list", "Mapping", "Sequence", "tuple", "set")):
        return OBJECT, f"JSON: {bare}"[:80], ()
    return ANYTHING, f"JSON, or text: {bare}"[:80], ()


def _flaw(field: Field, value: Any) -> str:
    """What a value of another type than that of its parameter is told; texts that could not be read stayed texts."""
    if field.kind is WHOLE and (isinstance(value, bool) or not isinstance(value, int)) and value is not None:
        return f"It must be a whole number, not {value!r}."
    if (
        field.kind is DECIMAL
        and (isinstance(value, bool) or not isinstance(value, int | float))
        and value is not None
    ):
        return f"It must be a number, not {value!r}."
    return ""


def _text(field: Field, value: Any) -> str:
    if field.kind.widget == "json":
        return json.dumps(value, indent=2, ensure_ascii=False)
    if field.kind is ANYTHING and not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value) if isinstance(value, float) else written(value)


def _reads_back(field: Field, text: str, value: Any) -> bool:
    """Whether a field with this text would give back just this value."""
    if text == "" or (field.kind is CHOICE and text not in dict(field.choices)):
        return False
    try:
        again = field.kind.read(text)
    except Invalid:
        return False
    return again == value and type(again) is type(value)
