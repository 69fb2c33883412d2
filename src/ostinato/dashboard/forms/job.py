"""The form of a job and of the args of its task: fields in groups, and the body that they send."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field as PolicyField
from dataclasses import dataclass, field, fields
from typing import Any, Final, get_args

from ostinato.core.errors import Invalid, NotFound
from ostinato.core.policy import WORDS, Backoff, Choice, Policies
from ostinato.core.schedule import Cron, parse_schedule
from ostinato.core.task_schema import WHOLE_OBJECT
from ostinato.dashboard.forms.fields import (
    AREA,
    CHOICE,
    DECIMAL,
    LIST,
    OBJECT,
    OPTIONAL,
    SWITCH,
    TEXT,
    WHOLE,
    Field,
    WidgetKind,
    flat,
    nested,
    table,
    value_of,
    written,
)
from ostinato.service import Service
from ostinato.service.tasks import TaskView
from ostinato.shapes.base import WrongField
from ostinato.shapes.documents import read_json

NO_YES: Final = (("false", "no"), ("true", "yes"))


@dataclass(frozen=True, slots=True)
class Group:
    """A group of fields; `more` is folded while it is empty."""

    title: str
    fields: Sequence[str]
    more: Sequence[str] = ()
    about_more: str = "More"


def _worded(policies: type, prefix: str = "") -> Iterator[Field]:
    """Make a field of each policy from its words, its default and its type."""
    for one in fields(policies):
        words = one.metadata.get(WORDS)
        if words and one.name not in ("window", "backoff"):  # these have fields of their own
            name, default = f"{prefix}{words.outside or one.name}", words.unset or written(one.default)
            choices = [(each.value, each.words) for each in words.choices] or NO_YES * (one.type is bool)
            yield Field(name, words.label, _kind(one), words.help, default, choices)


def _kind(one: PolicyField[Any]) -> WidgetKind:
    match one.default:
        case Choice():
            return CHOICE
        case bool():
            return SWITCH
        case float():
            return DECIMAL
        case tuple():
            return LIST
        case default:
            return WHOLE if isinstance(default, int) or int in get_args(one.type) else OPTIONAL


FIELDS: Final = table(
    Field("task", "Task", TEXT, "The code to run, by name.", needed=True),
    Field("args", "Further arguments", OBJECT, "A JSON object, by the names of the parameters."),
    Field("name", "Name", TEXT, "What people call it; else its task."),
    Field("description", "Description", AREA),
    Field("key", "Key", OPTIONAL, "Unique among jobs that have not ended: another with the same key is this one."),
    Field("tags", "Tags", LIST, "Separated by commas."),
    Field("owner", "Owner", TEXT),
    Field("metadata", "Metadata", OBJECT, "A JSON object of your own; Ostinato does not look inside."),
    Field(
        "schedule",
        "Schedule",
        OPTIONAL,
        "30m · every 6h · 0 9 * * mon-fri · @daily · 2026-12-24T18:00:00Z · now · manual",
        default="now",
    ),
    Field("timezone", "Time zone", OPTIONAL, "For a cron schedule."),
    Field("window.days", "Window: days", OPTIONAL, "mon-fri, or sat,sun. Due times outside are skipped."),
    Field("window.from", "Window: from", OPTIONAL, "09:00"),
    Field("window.to", "Window: to", OPTIONAL, "17:00; earlier than from: of the next day"),
    Field("window.timezone", "Window: time zone", OPTIONAL, default="UTC"),
    Field("queue", "Queue", OPTIONAL, default="default"),
    Field("priority", "Priority", WHOLE, "1 (first) to 10.", "5"),
    *_worded(Policies),
    *_worded(Backoff, "backoff."),
)  # fmt: skip

GROUPS: Final = (
    Group("About it", ("name", "tags"), ("description", "key", "owner", "metadata"), "Description, key, owner"),
    Group(
        "If it fails",
        ("max_retries", "timeout", "when_exhausted"),
        ("backoff.kind", "backoff.base", "backoff.cap", "backoff.factor", "backoff.steps", "backoff.jitter",
         "backoff.never_retry", "retry_reset_period", "on_lost"),
        "Delays between attempts, budget, lost workers",
    ),
    Group(
        "If it is late, or still runs",
        ("overlap", "catch_up"),
        ("max_overlap", "late_after", "catch_up_limit", "catch_up_within"),
        "How late is missed, how much to catch up",
    ),
    Group(
        "Where it runs, and what it may use",
        ("queue", "priority"),
        ("max_concurrency", "rate_limit", "concurrency_key", "cpu_limit", "memory_limit_mb", "open_files_limit",
         "output_limit_mb", "keep_executions", "keep_days", "run_args"),
        "Limits, history, and what operators may set",
    ),
)  # fmt: skip
WHEN: Final = Group(
    "When",
    ("schedule", "timezone"),
    ("first_run", "start_at", "end_at", "after", "total_repeats", "jitter", "fixed_delay", "window.days", "window.from",
     "window.to", "window.timezone"),
    "Beginning, end, repeats, window",
)  # fmt: skip
WINDOW: Final = ("window.days", "window.from", "window.to", "window.timezone")
SCHEDULE_WORDS: Final = ("every", "cron", "at")

BEGINNING: Final[Mapping[str, str]] = {one.name: one.default for one in FIELDS.values() if one.kind.widget == "choice"}


def texts_of(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of the form for an existing job."""
    texts = flat(answer, (one for one in FIELDS.values() if one.name not in ("schedule", "args")))
    schedule = answer["schedule"]
    texts["schedule"] = next((str(schedule[word]) for word in SCHEDULE_WORDS if word in schedule), "manual")
    return texts


def zone_counts(texts: Mapping[str, str]) -> bool:
    """Return True if the schedule has a time zone; intervals have none."""
    try:
        return isinstance(parse_schedule(texts.get("schedule", ""), "UTC"), Cron)
    except Invalid:
        return False


def new_body(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the body of a new job without its args; empty fields are left out."""
    said = {
        name: value_of(one, texts[name])
        for name, one in FIELDS.items()
        if name != "args" and texts.get(name, "").strip() and (name != "timezone" or zone_counts(texts))
    }
    return nested(said)


def changed_body(texts: Mapping[str, str], before: Mapping[str, str]) -> dict[str, Any]:
    """Return the changed fields of an edit without args. A window is sent whole."""
    said = {
        name: value_of(one, texts[name]) if texts[name].strip() else _emptied(one)
        for name, one in FIELDS.items()
        if name not in ("args", *WINDOW) and name in texts and texts[name] != before.get(name, "")
    }
    if not said.get("timezone") or not zone_counts(texts):
        said.pop("timezone", None)  # no zone of its own: that of the schedule, or ours
    if any(texts.get(name, "") != before.get(name, "") for name in WINDOW):
        window = nested({name: texts[name] for name in WINDOW if texts.get(name, "").strip()})
        said["window"] = window.get("window")
    return nested(said)


def _emptied(one: Field) -> Any:
    return list(one.kind.blank) if isinstance(one.kind.blank, tuple) else one.kind.blank


# -- Fields for the arguments of a task, by its JSON schema; other arguments are written as JSON

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
    kind, hint, choices = _kind_of_property(spec)
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


def _kind_of_property(spec: Mapping[str, Any]) -> tuple[WidgetKind, str, tuple[tuple[str, str], ...]]:
    """Return the widget of a property, its hint and its choices."""
    options = [each for each in spec.get("anyOf", ()) if each.get("type") != "null"]
    if spec.get("format") == "duration":
        return LINE, "Like 30s, 5m or 1h30m.", ()
    if len(options) == 1:
        return _kind_of_property(options[0])
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
