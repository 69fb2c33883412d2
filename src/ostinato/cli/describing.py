"""The flags that describe a job, for `job add` and `job edit`: they become a body of the API."""

import json
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, Final, ParamSpec

import typer

from ostinato.cli.verbs import Desk, with_flags
from ostinato.core.errors import Invalid

P = ParamSpec("P")

Text = str | None
SCHEDULES: Final = ("every", "cron", "at", "now", "manual")


def describing(
    command: Callable[Concatenate[Desk, dict[str, Any], P], None],
) -> Callable[Concatenate[Desk, P], None]:
    """A verb that takes what the flags say about a job as its second argument."""

    def run(desk: Desk, **given: Any) -> None:
        words = {name: given.pop(name) for name in _FLAGS}
        command(desk, body_of(words), **given)  # type: ignore[call-arg]

    return with_flags(run, command, _describing, hidden=2)


def _option(name: str, metavar: str, help: str) -> Any:
    return typer.Option(name, metavar=metavar, help=help)


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
    start_at: Annotated[Text, _option("--start-at", "INSTANT", "The first due time.")] = None,
    end_at: Annotated[Text, _option("--end-at", "INSTANT", "The last due time.")] = None,
    max_retries: Annotated[
        int | None, typer.Option("--retries", metavar="N", help="After the first try.")
    ] = None,
    backoff: Annotated[Text, _option("--backoff", "PERIOD", "Before the first retry; doubles.")] = None,
    timeout: Annotated[Text, _option("--timeout", "PERIOD", "The longest that it may run.")] = None,
    overlap: Annotated[
        Text, _option("--overlap", "POLICY", "skip, queue_one, cancel_running, allow.")
    ] = None,
    catch_up: Annotated[Text, _option("--catch-up", "POLICY", "latest, all, none.")] = None,
    url: Annotated[Text, _option("--url", "URL", "What to crawl, where no task is named.")] = None,
    set_: Annotated[
        list[str],
        _option(
            "--set", "FIELD=VALUE", "Any other field of the API; the value is JSON or text. Again for more."
        ),
    ] = [],  # noqa: B006
) -> None:
    """The flags that describe a job."""


_FLAGS: Final = tuple(_describing.__annotations__.keys() - {"return"})
PLAIN: Final = (
    "timezone", "key", "name", "description", "queue", "priority", "start_at", "end_at", "max_retries", "backoff",
    "timeout", "overlap", "catch_up", "url",
)  # fmt: skip


def body_of(words: dict[str, Any]) -> dict[str, Any]:
    """What the flags say, as a body of the API; what was not said is not in it."""
    body = {name: words[name] for name in PLAIN if words[name] is not None}
    if (schedule := _schedule(words)) is not None:
        body["schedule"] = schedule
    if (args := arguments(words["args"], words["arg"])) is not None:
        body["args"] = args
    if words["tag"]:
        body["tags"] = words["tag"]
    for text in words["set_"]:
        field, value = _assigned("--set", text)
        body[field] = value
    return body


def _schedule(words: dict[str, Any]) -> dict[str, str] | str | None:
    said = [name for name in SCHEDULES if words[name]]
    if len(said) > 1:
        raise Invalid(f"--{said[0]} and --{said[1]} exclude each other: say one of them.")
    if not said:
        return None
    return said[0] if said[0] in ("now", "manual") else {said[0]: words[said[0]]}


def arguments(text: str | None, pairs: list[str]) -> dict[str, Any] | None:
    if text is None and not pairs:
        return None
    args = {} if text is None else _object("--args", text)
    return args | dict(_assigned("--arg", pair) for pair in pairs)


def _object(flag: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Invalid(f"{flag} cannot be read as JSON: {error}.") from None
    if not isinstance(value, dict):
        raise Invalid(f'{flag} is a JSON object, such as {{"name": "value"}}, not {text[:60]}.')
    return value


def _assigned(flag: str, text: str) -> tuple[str, Any]:
    """`name=value`: the value is JSON where it can be read so, else text."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise Invalid(f"{flag} is written NAME=VALUE, not {text[:60]!r}.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
