"""The form of a job: its fields in groups, the body that it sends, and the texts of a job that is there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field as PolicyField
from dataclasses import dataclass, fields
from typing import Any, Final, get_args

from ostinato.core.choice import WORDS, Choice
from ostinato.core.errors import Invalid
from ostinato.core.policy import Policies
from ostinato.core.retry import Backoff
from ostinato.core.schedule import Cron, parse_schedule
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
FROM_SIGNATURE: Final = ("task", "args")  # what arguments.py puts together
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
