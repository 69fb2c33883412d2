"""`ostinato provider …`: request budgets of hosts."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ostinato.cli.client import path
from ostinato.cli.output import Answer, Column, FactsTable, Listing, Sentences, at_length, print_json
from ostinato.cli.verbs import ApiCalls, YesOption, confirm, files_in, verb
from ostinato.core.errors import Invalid, NotFound
from ostinato.features.providers.rules import parse_provider
from ostinato.shapes.documents import listed, read_file

provider = typer.Typer(rich_markup_mode=None)
GROUPS: Final = {"provider": provider}

DomainArgument = Annotated[str, typer.Argument(metavar="DOMAIN", help="Such as api.example.org.")]


@provider.command("apply")
@verb
def apply(
    api: ApiCalls,
    files: Annotated[list[Path], typer.Argument(metavar="FILE|DIR…", help="YAML or JSON files.")],
) -> None:
    """Save the providers of files. Other providers do not change."""
    bodies = [body for file in files_in(files) for body in _bodies(file)]
    done = [_applied(api, body) for body in bodies]
    if api.as_json:
        print_json([answer for _, answer in done])
    else:
        api.tell(done, lambda all_of: Sentences([f"{how}: {_line(answer)}" for how, answer in all_of]))


@provider.command("list")
@verb
def list_providers(api: ApiCalls) -> None:
    """List all providers, with their remaining budget and their waiting executions."""
    columns = (
        Column("Domain", lambda row: row["domain"], cut=True),
        Column("Left", lambda row: f"{row['left']}/{row['limit']}", right=True),
        Column("Per", lambda row: row["period"]),
        Column("Waiting", lambda row: row["waiting"], right=True),
        Column("Key", lambda row: _key(row), spare=1),
    )
    api.tell(
        api.get("/providers"),
        lambda answer: Listing(columns, answer["providers"], "There are no providers."),
    )


@provider.command("show")
@verb
def show_provider(api: ApiCalls, domain: DomainArgument) -> None:
    """Show a provider."""
    now = api.now()
    api.tell(api.get(path("providers", domain)), lambda row: FactsTable(_facts(row, now)))


@provider.command("delete")
@verb
def delete_provider(api: ApiCalls, domain: DomainArgument, yes: YesOption = False) -> None:
    """Delete a provider. Requests to its hosts then have no budget."""
    confirm(yes, f"Requests to {domain} would have no budget", f"Delete the budget of {domain}?")
    answer = api.ask("DELETE", path("providers", domain))
    api.tell(answer, lambda answer: Sentences([answer["message"]]))


def _applied(api: ApiCalls, body: dict[str, Any]) -> tuple[str, Answer]:
    where = path("providers", body["domain"])
    try:
        before = api.get(where)
    except NotFound:
        before = None
    answer = api.ask("PUT", where, body={name: value for name, value in body.items() if name != "domain"})
    if before is None:
        return "created", answer
    same = all(before[name] == answer[name] for name in ("limit", "period", "key"))
    return "unchanged" if same else "changed", answer


def _bodies(file: Path) -> list[dict[str, Any]]:
    """Read the providers of a file: one, several documents, a list, or a list under `providers`."""
    found = [each for document in read_file(file) for each in listed(document, "providers")]
    if not found:
        raise Invalid(f"{file} contains no provider.")
    for number, body in enumerate(found, 1):
        try:
            parse_provider(body)
        except Invalid as error:
            raise Invalid(f"{file}, provider {number}: {error}") from None
    return found


def _line(row: Answer) -> str:
    waiting = f", {row['waiting']} waiting" if row["waiting"] else ""
    return f"{row['domain']} {row['left']}/{row['limit']} left, per {row['period']}{waiting}"


def _key(row: Answer) -> str:
    key = row["key"]
    if key is None:
        return ""
    return f"{key['type']} {key['name']}: {key['value']}" if "name" in key else f"bearer: {key['token']}"


def _facts(row: Answer, now: Any) -> dict[str, object]:
    return {
        "Domain": row["domain"],
        "Budget": f"{row['limit']} per {row['period']}",
        "Left": f"{row['left']}/{row['limit']}",
        "Waiting": row["waiting"],
        "Key": _key(row),
        "Saved": at_length(row["saved_at"], now),
        "Saved by": row["saved_by"],
    }
