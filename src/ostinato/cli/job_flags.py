"""The flags that describe a job, for `job add` and `job edit`: they become a body of the API."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, Final, ParamSpec

import typer

from ostinato.cli.verbs import ApiCalls, with_flags
from ostinato.core.errors import Invalid
from ostinato.core.policy import POLICY_WORDS
from ostinato.shapes.documents import json_or_text, read_json

P = ParamSpec("P")

Text = str | None
SCHEDULES: Final = ("every", "cron", "at", "now", "manual")


def describing(
    command: Callable[Concatenate[ApiCalls, "Said", P], None],
) -> Callable[Concatenate[ApiCalls, P], None]:
    """A verb that takes what the flags say about a job as its second argument."""

    def run(api: ApiCalls, **given: Any) -> None:
        words = {name: given.pop(name) for name in _FLAGS}
        command(api, said(words), **given)  # type: ignore[call-arg]

    return with_flags(run, command, _describing, hidden=2)


def _option(name: str, metavar: str, help: str) -> Any:
    return typer.Option(name, metavar=metavar, help=help)


def _policy(name: str, metavar: str, flag: str = "") -> Any:
    """Make the flag of a policy from its words."""
    words = POLICY_WORDS[name]
    help = f"{words.help[:-1]}: {', '.join(words.choices)}." if words.choices else words.help
    unset = f" Unset: {words.unset}." if words.unset else ""
    return _option(flag or f"--{name.replace('_', '-')}", metavar, help + unset)


def _describing(
    *,
    every: Annotated[Text, _option("--every", "PERIOD", "Due every 30m, 6h, 1d …")] = None,
    cron: Annotated[Text, _option("--cron", "EXPRESSION", "Due at the times of a cron expression.")] = None,
    at: Annotated[Text, _option("--at", "INSTANT", "Due once, such as 2026-11-16T09:00:00Z.")] = None,
    now: Annotated[bool, typer.Option("--now", help="Due once, at once.")] = False,
    manual: Annotated[bool, typer.Option("--manual", help="Due only by hand.")] = False,
    timezone: Annotated[Text, _option("--timezone", "ZONE", "The zone of --cron.")] = None,
    args: Annotated[Text, _option("--args", "JSON", "The arguments of the task, a JSON object.")] = None,
    arg: Annotated[list[str], _option("--arg", "NAME=VALUE", "One argument; again for more.")] = [],  # noqa: B006
    key: Annotated[Text, _option("--key", "KEY", "A name of your own, unique.")] = None,
    name: Annotated[Text, _option("--name", "NAME", "For people.")] = None,
    description: Annotated[Text, _option("--description", "TEXT", "For people.")] = None,
    queue: Annotated[Text, _option("--queue", "QUEUE", "The queue of its executions.")] = None,
    priority: Annotated[int | None, typer.Option("--priority", metavar="1-10", help="1 is first.")] = None,
    tag: Annotated[list[str], _option("--tag", "TAG", "A tag; again for more.")] = [],  # noqa: B006
    start_at: Annotated[Text, _policy("start_at", "INSTANT")] = None,
    end_at: Annotated[Text, _policy("end_at", "INSTANT")] = None,
    max_retries: Annotated[int | None, _policy("max_retries", "N", "--retries")] = None,
    backoff: Annotated[Text, _policy("backoff", "PERIOD")] = None,
    timeout: Annotated[Text, _policy("timeout", "PERIOD")] = None,
    overlap: Annotated[Text, _policy("overlap", "POLICY")] = None,
    catch_up: Annotated[Text, _policy("catch_up", "POLICY")] = None,
    url: Annotated[Text, _option("--url", "URL", "What to crawl, where no task is named.")] = None,
    set_: Annotated[
        list[str],
        _option("--set", "FIELD=VALUE", "Any other field of the API; the value is JSON or text. Again for more."),
    ] = [],  # noqa: B006
) -> None:
    """The flags that describe a job."""


_FLAGS: Final = tuple(_describing.__annotations__.keys() - {"return"})
PLAIN: Final = (
    "timezone", "key", "name", "description", "queue", "priority", "start_at", "end_at", "max_retries", "backoff",
    "timeout", "overlap", "catch_up", "url",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Said:
    """The fields of a job that flags have set."""

    fields: Mapping[str, Any]
    args: Mapping[str, Any] | None  # all of them
    some_args: Mapping[str, Any]  # and some, one by one

    @property
    def nothing(self) -> bool:
        return not self.fields and self.args is None and not self.some_args

    def body(self, task: str | None, current: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A body of the API. `current` are the arguments of the job, of which some are changed."""
        body = dict(self.fields) if task is None else {"task": task, **self.fields}
        if self.args is not None or self.some_args:
            whole = current or {} if self.args is None else self.args
            body["args"] = {**whole, **self.some_args}
        return body


def said(words: Mapping[str, Any]) -> Said:
    """Read the fields of a job from flags."""
    fields = {name: words[name] for name in PLAIN if words[name] is not None}
    if (schedule := _schedule(words)) is not None:
        fields["schedule"] = schedule
    if words["tag"]:
        fields["tags"] = words["tag"]
    fields |= dict(_assigned("--set", text) for text in words["set_"])
    return Said(fields, *arguments(words["args"], words["arg"]))


def _schedule(words: Mapping[str, Any]) -> dict[str, str] | str | None:
    match [name for name in SCHEDULES if words[name]]:
        case []:
            return None
        case ["now" | "manual" as name]:
            return name
        case [name]:
            return {name: words[name]}
        case [name, other, *_]:
            raise Invalid(f"--{name} and --{other} exclude each other: say one of them.")
    return None


def arguments(text: str | None, pairs: list[str]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Read `--args` (all arguments) and `--arg` (some of them)."""
    return None if text is None else _object("--args", text), dict(_assigned("--arg", pair) for pair in pairs)


def _object(flag: str, text: str) -> dict[str, Any]:
    value = read_json(text, flag)
    if not isinstance(value, dict):
        raise Invalid(f'{flag} is a JSON object, such as {{"name": "value"}}, not {text[:60]}.')
    return value


def _assigned(flag: str, text: str) -> tuple[str, Any]:
    """`name=value`: the value is JSON where it can be read so, else text."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise Invalid(f"{flag} is written NAME=VALUE, not {text[:60]!r}.")
    return name, json_or_text(value)
