"""Verbs: commands that ask the front desk. What they have in common is said once, here.

    @jobs.command("pause")
    @verb
    def pause(desk: Desk, job: JobArgument) -> None: ...

`verb` gives the command its flags `--server`, `--token`, `--database` and `--json`, opens the door they name, and
hands it over as the first argument.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Concatenate, Final, ParamSpec

import typer

from ostinato.cli.client import FOREIGN, Door, Query, Request, path, read
from ostinato.cli.codes import exit_code
from ostinato.cli.output import Several, Shown, note, print_json, show
from ostinato.core.errors import NotFound, OstinatoError

P = ParamSpec("P")

PAGE_LIMIT: Final = 250  # the most that one request lists

ServerOption = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", envvar="OSTINATO_SERVER", help="Ask a server, not the database."),
]
TokenOption = Annotated[
    str | None,
    typer.Option("--token", metavar="TOKEN", envvar="OSTINATO_TOKEN", help="A token or key for the server."),
]
DatabaseOption = Annotated[
    str | None, typer.Option("--database", metavar="URL", help="Instead of OSTINATO_DATABASE_URL.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="The answer of the API, and nothing else.")]


@dataclass(frozen=True, slots=True)
class Flags:
    """Options of all commands: the server, and the form of the answer."""

    server: str | None
    token: str | None
    database: str | None
    as_json: bool


class ApiCalls:
    """The front desk, as a verb asks it."""

    def __init__(self, door: Door, as_json: bool, now: Callable[[], datetime]) -> None:
        self._door, self.as_json, self.now = door, as_json, now
        self._noted = set[str]()

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
        """The answer to a request; a refusal is raised as an error of ours."""
        reply = self._door.send(Request(method, where, query or {}, body, headers or {}))
        if (told := reply.headers.get("warning")) and told not in self._noted:
            self._noted.add(told)
            note(told.partition(" ")[2].partition(" ")[2].strip('"'))
        return read(reply)

    def pages(self, where: str, name: str, **query: object) -> Iterator[Any]:
        """Every item of a list, page after page."""
        cursor = None
        while True:
            answer = self.get(where, **query, limit=PAGE_LIMIT, cursor=cursor)
            yield from answer[name]
            cursor = answer.get("cursor")
            if cursor is None:
                return

    def job(self, ref: str, *more: str) -> str:
        """The path of a job. A key that cannot stand in an address is looked up first."""
        if "/" not in ref and ref not in (".", ".."):
            return path("jobs", ref, *more)
        for found in self.pages("/jobs", "jobs", search=ref):
            if found["key"] == ref:
                return path("jobs", found["id"], *more)
        raise NotFound(f"There is no job with the key {ref!r}.")

    def tell(self, answer: Any, view: Callable[[Any], Shown]) -> None:
        """The answer as JSON, or as people see it."""
        if self.as_json:
            print_json(answer)
        else:
            show(view(answer))

    def each(self, refs: Sequence[str], ask: Callable[[str], Any], view: Callable[[Any], Shown]) -> None:
        """The same for several: what cannot be done for one does not keep the others from it. The exit code is the
        first refusal's."""
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
    """A command that asks the front desk, with the flags that say where it is."""

    def run(
        *, server: str | None, token: str | None, database: str | None, as_json: bool, **given: Any
    ) -> None:
        with opened(Flags(server, token, database, as_json)) as api:
            command(api, **given)  # type: ignore[call-arg]  # the arguments that Typer has read for it

    return with_flags(run, command, _flags, hidden=1)


def with_flags(
    run: Callable[..., None], command: Callable[..., None], flags: Callable[..., Any], hidden: int
) -> Callable[..., None]:
    """Let Typer see the arguments of a command, but for the first that are hidden, and these flags."""
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
    """The flags of every verb."""


@contextmanager
def opened(flags: Flags) -> Iterator[ApiCalls]:
    """The front desk that the flags name."""
    door, now = _door(flags)
    try:
        with plainly_refused(door):
            yield ApiCalls(door, flags.as_json, now)
    finally:
        door.close()


@contextmanager
def plainly_refused(door: Door) -> Iterator[None]:
    """Say that a server is not ours when its answer has another shape than ours have."""
    try:
        yield
    except OstinatoError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError):
        if not door.is_foreign:
            raise
        raise OstinatoError(FOREIGN) from None


def _door(flags: Flags) -> tuple[Door, Callable[[], datetime]]:
    if flags.server is not None and flags.database is None:
        from ostinato.cli.over_http import HttpDoor

        return HttpDoor(flags.server, flags.token), lambda: datetime.now(UTC)
    from ostinato.cli.direct import DirectDoor

    direct = DirectDoor(flags.database)
    return direct, direct.now
