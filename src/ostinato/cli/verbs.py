"""Common part of the commands that call the API: the decorator `verb`, its flags, and `ApiCalls`.

@job.command("pause")
    @verb
    def pause(api: ApiCalls, jobs: JobsArgument) -> None: ...

`verb` adds the flags `--server`, `--token`, `--database` and `--json` to the command, opens the client they name, and
passes it as the first argument.
"""

import inspect
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Concatenate, Final, ParamSpec, get_args, get_origin

import typer

from ostinato.cli.client import FOREIGN, ApiClient, Query, Request, exit_code, path, read
from ostinato.cli.output import Several, Shown, note, print_json, screen, show
from ostinato.config.extras import need
from ostinato.core.errors import Invalid, NotFound, OstinatoError
from ostinato.shapes.documents import listed, read_file

P = ParamSpec("P")

PAGE_LIMIT: Final = 250  # the largest page of the API

ServerOption = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", envvar="OSTINATO_SERVER", help="Call this server, not the database."),
]
TokenOption = Annotated[
    str | None,
    typer.Option("--token", metavar="TOKEN", envvar="OSTINATO_TOKEN", help="Token or API key for the server."),
]
DatabaseOption = Annotated[
    str | None, typer.Option("--database", metavar="URL", help="Overrides OSTINATO_DATABASE_URL.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only the JSON answer of the API.")]
# Flags of several lists.
StatusOption = Annotated[list[str], typer.Option("--status", metavar="STATUS", help="Only this status; repeatable.")]
TaskOption = Annotated[str | None, typer.Option("--task", metavar="TASK", help="Only this task.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
LimitOption = Annotated[int, typer.Option("-n", "--limit", metavar="N", help="Maximum number to show, up to 250.")]


@dataclass(frozen=True, slots=True)
class _Flags:
    """Flags of all these commands: the server or database, and the form of the answer."""

    server: str | None
    token: str | None
    database: str | None
    as_json: bool


def confirm(yes: bool, reason: str, question: str) -> None:
    """Ask on the terminal, unless `--yes` was given; without a terminal, give the reason and ask for `--yes`."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Invalid(f"{reason}: confirm with --yes.")
    typer.confirm(question, abort=True, err=True)


class ApiCalls:
    """The API, as a command calls it."""

    def __init__(self, client: ApiClient, as_json: bool, now: Callable[[], datetime]) -> None:
        self._client, self.as_json, self.now = client, as_json, now
        self._warnings = set[str]()

    def get(self, where: str, **query: object) -> Any:
        return self.ask("GET", where, query=query)

    def post(self, where: str, body: object | None = None, **query: object) -> Any:
        return self.ask("POST", where, query=query, body=body)

    def ask(
        self,
        method: str,
        where: str,
        *,
        query: Query | None = None,
        body: object | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request and return its answer; an error of the API is raised."""
        reply = self._client.send(Request(method, where, query or {}, body, headers or {}))
        if (warning := reply.headers.get("warning")) and warning not in self._warnings:
            self._warnings.add(warning)
            note(warning.partition(" ")[2].partition(" ")[2].strip('"'))
        return read(reply)

    def pages(self, where: str, name: str, **query: object) -> Iterator[Any]:
        """Yield every item of a list, page by page."""
        cursor = None
        while True:
            answer = self.get(where, **query, limit=PAGE_LIMIT, cursor=cursor)
            yield from answer[name]
            cursor = answer.get("cursor")
            if cursor is None:
                return

    def job(self, ref: str, *more: str) -> str:
        """Return the path of a job. A key that is not valid in a path is looked up first."""
        if "/" not in ref and ref not in (".", ".."):
            return path("jobs", ref, *more)
        for found in self.pages("/jobs", "jobs", search=ref):
            if found["key"] == ref:
                return path("jobs", found["id"], *more)
        raise NotFound(f"There is no job with the key {ref!r}.")

    def tell(self, answer: Any, view: Callable[[Any], Shown]) -> None:
        """Print the answer as JSON or as text."""
        if self.as_json:
            print_json(answer)
        else:
            show(view(answer))

    def each(self, refs: Sequence[str], ask: Callable[[str], Any], view: Callable[[Any], Shown]) -> None:
        """Send one request for each reference. An error does not stop the others; the first sets the exit code."""
        if len(refs) == 1:
            self.tell(ask(refs[0]), view)
            return
        answers, code = [], 0
        for ref in refs:
            try:
                answers.append(ask(ref))
            except OstinatoError as error:
                note(f"{ref}: {error}")
                code = code or exit_code(error)
        self.tell(answers, lambda done: Several([view(answer) for answer in done]))
        if code:
            raise typer.Exit(code)


def verb(command: Callable[Concatenate[ApiCalls, P], None]) -> Callable[..., None]:
    """Make a function a command that calls the API, with the flags for it."""

    def run(*, server: str | None, token: str | None, database: str | None, as_json: bool, **given: Any) -> None:
        with opened(_Flags(server, token, database, as_json)) as api:
            command(api, **given)  # type: ignore[call-arg]  # Typer has read these arguments

    return with_flags(run, command, _flags, hidden=1)


def with_flags(
    run: Callable[..., None], command: Callable[..., None], flags: Callable[..., Any], hidden: int
) -> Callable[..., None]:
    """Show Typer the arguments of a command, except the first `hidden` ones, and these flags."""
    own = [*inspect.signature(command, eval_str=True).parameters.values()]
    more = inspect.signature(flags, eval_str=True).parameters.values()
    shown = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own[hidden:], *more)]
    before = [each.replace(kind=inspect.Parameter.POSITIONAL_ONLY) for each in own[: hidden - 1]]
    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
    run.__signature__ = inspect.Signature([*before, *shown])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in (*before, *shown)}
    return run


def _flags(
    *,
    as_json: JsonOption = False,
    server: ServerOption = None,
    token: TokenOption = None,
    database: DatabaseOption = None,
) -> None:
    """Declare the flags of every command that calls the API."""


@contextmanager
def opened(flags: _Flags) -> Iterator[ApiCalls]:
    """Open the API that the flags name."""
    client, now = _client(flags)
    try:
        with plainly_refused(client):
            yield ApiCalls(client, flags.as_json, now)
    finally:
        client.close()


@contextmanager
def plainly_refused(client: ApiClient) -> Iterator[None]:
    """Report a server that is not Ostinato, when its answer has an unknown shape."""
    try:
        yield
    except OstinatoError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError):
        if not client.is_foreign:
            raise
        raise OstinatoError(FOREIGN) from None


def _client(flags: _Flags) -> tuple[ApiClient, Callable[[], datetime]]:
    if flags.server is not None and flags.database is None:
        need("cli", "httpx2", "--server")
        from ostinato.cli.over_http import HttpClient

        return HttpClient(flags.server, flags.token), lambda: datetime.now(UTC)
    from ostinato.cli.direct import InProcessClient

    direct = InProcessClient(flags.database)
    return direct, direct.now


# -- Answers that refresh until Ctrl-C: `--watch` and `ostinato top`

PERIOD: Final = 2.0  # seconds


def live(api: ApiCalls, ask: Callable[[], Any], view: Callable[[Any], Shown], *, whole: bool = False) -> None:
    """Show the answer every two seconds: in place on a terminal, or as lines of JSON with `--json`."""
    with suppress(KeyboardInterrupt), _remembered_interrupt() as check:  # Ctrl-C is the way to quit

        def asked() -> Any:
            answer = ask()
            check()
            return answer

        if api.as_json:
            _lines(asked)
        else:
            _screen(asked, view, whole)


@contextmanager
def _remembered_interrupt() -> Iterator[Callable[[], None]]:
    """Remember Ctrl-C, and yield a function that raises it again.

    SQLite drops an exception that is raised inside its callbacks: one interrupt in eight during a query was lost.
    """
    interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    def check() -> None:
        if interrupted:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield check
    except Exception:
        check()  # the interrupt may be the cause of the failure
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def _lines(ask: Callable[[], Any]) -> None:
    while True:
        print_json(ask(), indent=None)
        time.sleep(PERIOD)


def _screen(ask: Callable[[], Any], view: Callable[[Any], Shown], whole: bool) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    def drawn() -> Text:
        return Text.from_ansi("\n".join(view(ask()).lines(*screen())))

    with Live(drawn(), console=Console(highlight=False), screen=whole, auto_refresh=False) as live:
        while True:
            live.refresh()
            time.sleep(PERIOD)
            live.update(drawn())


# -- Parameters that are read without pydantic.
#
# Typer reads each parameter with an adapter of pydantic, whose import takes a third of an everyday command. Texts,
# flags
# and whole numbers need none. Another value, and a wrong one, goes to Typer's own reader, which words the error.

READER: Final = "_runtime_param"  # the attribute of Typer's parameters; tests/cli/test_light.py fails if it is renamed


@dataclass(frozen=True, slots=True)
class LightReader:
    """A reader of plain values, in the place of Typer's."""

    is_plain: Callable[[Any], bool]
    convert: Callable[[Any], Any]
    typers: Callable[[], Any]  # builds Typer's own reader

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        return self.convert(value) if self.is_plain(value) else self.typers().coerce(value, param=param, ctx=ctx)


def lighten(command: Any) -> None:
    """Give the parameters of a command, and of all below it, light readers."""
    top = typer.Context(command, **command.context_settings)
    for each in _commands(command):
        for param in each.get_params(typer.Context(each, parent=top)):  # with --help, which is made here and kept
            reader = _reader(param)
            if reader is not None and getattr(param, READER, "") is None:
                setattr(param, READER, reader)


def _commands(command: Any) -> Iterator[Any]:
    yield command
    for below in getattr(command, "commands", {}).values():
        yield from _commands(below)


def _reader(param: Any) -> LightReader | None:
    descriptor = getattr(param, "type_descriptor", None)
    if descriptor is None or getattr(descriptor.parameter_info, "parser", None) is not None:
        return None

    def typers() -> Any:
        setattr(param, READER, None)
        return param.get_runtime_param()

    match _without_none(descriptor.annotation):
        case kind if kind is str:
            return LightReader(lambda value: isinstance(value, str), str, typers)
        case kind if kind is bool:
            return LightReader(lambda value: isinstance(value, bool), bool, typers)
        case kind if kind is int and not descriptor.is_ranged:
            return LightReader(_is_whole, int, typers)
        case kind if get_origin(kind) is list and get_args(kind) == (str,):
            return LightReader(_are_texts, list, typers)
    return None


def _without_none(annotation: Any) -> Any:
    kinds = [each for each in get_args(annotation) if each is not NoneType]
    return kinds[0] if len(kinds) == 1 and NoneType in get_args(annotation) else annotation


def _is_whole(value: Any) -> bool:
    return type(value) is int or (isinstance(value, str) and value.isascii() and value.isdigit())


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


# -- Files of definitions: objects with a name, or folders with such files

SUFFIXES: Final = (".yaml", ".yml", ".json")


def read_named(file: Path, what: str) -> list[dict[str, Any]]:
    """Read the objects of a file; each must have a name. `what` describes an object in the error."""
    wanted = [each for document in read_file(file) for each in listed(document)]
    for each in wanted or [None]:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            raise Invalid(f"{file}: {what}.")
    return wanted


def files_in(given: Sequence[Path]) -> Iterator[Path]:
    """Yield the given files, and the files in the given folders."""
    for each in given:
        if not each.is_dir():
            yield each
            continue
        inside = sorted(file for file in each.rglob("*") if file.suffix in SUFFIXES and file.is_file())
        if not inside:
            raise Invalid(f"There is no .yaml, .yml or .json file in {each}.")
        yield from inside
