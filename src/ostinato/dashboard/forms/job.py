"""The form of a job: its fields in groups, the body that it sends, and the texts of a job that is there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ostinato.core.errors import Invalid
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
    flat,
    nested,
    table,
    value_of,
)

NO_YES: Final = (("false", "no"), ("true", "yes"))


@dataclass(frozen=True, slots=True)
class Group:
    """A group of fields; `more` is folded while it is empty."""

    title: str
    fields: Sequence[str]
    more: Sequence[str] = ()
    about_more: str = "More"


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
    Field(
        "first_run",
        "First run",
        CHOICE,
        default="next",
        choices=(("next", "one period from now, or the next match"), ("now", "now")),
    ),
    Field("start_at", "Not before", OPTIONAL, "Like 2026-11-16T09:00:00Z."),
    Field("end_at", "Not after", OPTIONAL, "Like 2026-12-31T23:59:59Z; inclusive."),
    Field("total_repeats", "Repeats", WHOLE, "After so many successes it is completed; 0: for ever.", "0"),
    Field("jitter", "Jitter", OPTIONAL, "Starts later by up to this, always the same for one due time.", "0s"),
    Field(
        "fixed_delay",
        "Count from the finish",
        SWITCH,
        "The period counts from the end of a run, not from its due time.",
        "false",
        NO_YES,
    ),
    Field("window.days", "Window: days", OPTIONAL, "mon-fri, or sat,sun. Due times outside are skipped."),
    Field("window.from", "Window: from", OPTIONAL, "09:00"),
    Field("window.to", "Window: to", OPTIONAL, "17:00; earlier than from: of the next day"),
    Field("window.timezone", "Window: time zone", OPTIONAL, default="UTC"),
    Field("max_retries", "Retries", WHOLE, "Not counting the first try.", "3; 0 if it runs once"),
    Field("timeout", "Timeout", OPTIONAL, "5m, 1h30m, or seconds; from the start of an attempt.", "none"),
    Field(
        "when_exhausted",
        "When all retries failed",
        CHOICE,
        default="continue",
        choices=(
            ("continue", "go on with the next due time"),
            ("fail", "the job has failed, and stops"),
            ("wait_reset", "wait for the reset of its budget"),
        ),
    ),
    Field("backoff.base", "First delay", OPTIONAL, "Before the next attempt; unset, at most the period.", "1m"),
    Field("backoff.cap", "Longest delay", OPTIONAL, "Unset, at most the period.", "1h"),
    Field(
        "backoff.kind",
        "Delays grow",
        CHOICE,
        default="exponential",
        choices=(
            ("exponential", "exponentially"),
            ("linear", "by the first delay each time"),
            ("fixed", "not at all"),
            ("steps", "by steps"),
        ),
    ),
    Field("backoff.steps", "Steps", LIST, "1m, 5m, 1h: the delays one after the other."),
    Field("backoff.factor", "Factor", DECIMAL, "Of an exponential delay.", "2"),
    Field("backoff.jitter", "Random share", DECIMAL, "0 to 1: what a delay may vary by.", "0"),
    Field("backoff.never_retry", "Never retry", LIST, "Names of errors that no attempt can mend: ValueError, …"),
    Field(
        "retry_reset_period", "Budget is for", OPTIONAL, "Failures are counted for so long.", "one occurrence"
    ),
    Field(
        "on_lost",
        "When its worker dies",
        CHOICE,
        default="retry",
        choices=(("retry", "run it again"), ("fail", "it has failed: it must not run twice")),
    ),
    Field(
        "overlap",
        "While it still runs",
        CHOICE,
        default="skip",
        choices=(
            ("skip", "skip the due time"),
            ("queue_one", "let one wait"),
            ("cancel_running", "stop what runs, then run"),
            ("allow", "run side by side"),
        ),
    ),
    Field("max_overlap", "Side by side at most", WHOLE, "With: run side by side.", "1"),
    Field(
        "catch_up",
        "After an outage",
        CHOICE,
        default="latest",
        choices=(
            ("latest", "run the newest missed time"),
            ("all", "run all missed times, one by one"),
            ("none", "run none of them"),
        ),
    ),
    Field("late_after", "Missed when later than", OPTIONAL, "Until then it is only late, and runs.", "1m"),
    Field("catch_up_limit", "Catch up at most", WHOLE, "Of all missed times, the newest so many.", "100"),
    Field("catch_up_within", "Catch up within", OPTIONAL, "What is older does not run.", "any age"),
    Field("queue", "Queue", OPTIONAL, default="default"),
    Field("priority", "Priority", WHOLE, "1 (first) to 10.", "5"),
    Field("max_concurrency", "At once at most", WHOLE, "Over all workers; by task, or by the key below.", "no limit"),
    Field("rate_limit", "Rate limit", OPTIONAL, "10/m, 5/s, 20/30s", "no limit"),
    Field("concurrency_key", "Who shares these limits", OPTIONAL, "Such as {args[tenant]}", "its task"),
    Field("after", "After another job", OPTIONAL, "Its key or id: runs when that has completed."),
    Field("cpu_limit", "CPU time", OPTIONAL, "This and the next three: of a run in a process of its own.", "no limit"),
    Field("memory_limit_mb", "Memory (MB)", WHOLE, default="no limit"),
    Field("open_files_limit", "Open files", WHOLE, default="no limit"),
    Field("output_limit_mb", "Written file (MB)", WHOLE, default="no limit"),
    Field("run_args", "Operators may set", LIST, "Args of a run, separated by commas: day, values.city", "nothing"),
    Field("keep_executions", "Keep executions", WHOLE, "The newest, however old they are.", "as set"),
    Field("keep_days", "Keep days", WHOLE, default="as set"),
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

BEGINNING: Final[Mapping[str, str]] = {
    one.name: one.default for one in FIELDS.values() if one.kind.widget == "choice"
}


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
