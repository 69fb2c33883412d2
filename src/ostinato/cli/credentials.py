"""`ostinato token create`, `ostinato key …`, `ostinato access end`: credentials for people and programs."""

import sys
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ostinato.cli.client import path
from ostinato.cli.output import Column, FactsTable, Listing, Sentences, Several, at_length, note, print_json, when
from ostinato.cli.verbs import ApiCalls, verb
from ostinato.config.extras import need
from ostinato.core.access import Role
from ostinato.core.errors import Invalid

token = typer.Typer(help="Tokens: create.", rich_markup_mode=None)
key = typer.Typer(help="API keys: create, list, revoke.", rich_markup_mode=None)
access = typer.Typer(help="Access: end it for a token, a name, a key or all.", rich_markup_mode=None)

RoleOption = Annotated[Role, typer.Option("--role", help="viewer reads, operator controls, admin edits.")]


@token.command("create")
def create_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The user or program; history records it as `by`.")],
    role: RoleOption = Role.VIEWER,
    lifetime: Annotated[str, typer.Option("--for", metavar="PERIOD", help="Lifetime, such as 12h.")] = "1d",
    as_json: Annotated[bool, typer.Option("--json", help="Print only JSON.")] = False,
) -> None:
    """Create a token, signed with OSTINATO_AUTH_SECRET. It is not stored, and is valid until it expires."""
    need("server", "jwt", "A token")
    from ostinato.access.tokens import Tokens
    from ostinato.config import Settings
    from ostinato.core.times import parse_duration

    tokens = Tokens.of(Settings.load())
    if tokens is None:
        raise Invalid("There is no secret to sign with: set OSTINATO_AUTH_SECRET, at least 32 bytes.")
    length, now = parse_duration(lifetime), datetime.now(UTC)
    signed = tokens.issue(name, role, now, length)
    if as_json:
        print_json({"token": signed, "name": name, "role": role.value, "expires_at": (now + length).isoformat()})
    else:
        note(f"A token for {name}, {role.value}, valid for {lifetime}:")
        typer.echo(signed)


@key.command("create")
@verb
def create_key(
    api: ApiCalls,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The user or program; history records it as `by`.")],
    role: RoleOption = Role.VIEWER,
    lifetime: Annotated[
        str | None, typer.Option("--for", metavar="PERIOD", help="Lifetime; without it, no expiry.")
    ] = None,
) -> None:
    """Create an API key. The key is shown only once."""
    body = {"name": name, "role": role.value} | ({} if lifetime is None else {"expires_in": lifetime})
    answer = api.post("/keys", body)
    api.tell(
        answer,
        lambda made: Several(
            [
                FactsTable(_facts(made, api.now())),
                Sentences(["", "Copy the key now: it is not shown again.", made["key"]]),
            ]
        ),
    )


def _facts(made: dict[str, str | None], now: datetime) -> dict[str, object]:
    return {
        "Key": made["id"],
        "Name": made["name"],
        "Role": made["role"],
        "Expires": at_length(made["expires_at"], now) if made["expires_at"] else "never",
    }


@key.command("list")
@verb
def list_keys(api: ApiCalls) -> None:
    """List all keys, also revoked ones, the newest first."""
    now = api.now()
    columns = (
        Column("Key", lambda row: row["id"]),
        Column("Prefix", lambda row: row["prefix"], spare=3),
        Column("Name", lambda row: row["name"], cut=True),
        Column("Role", lambda row: row["role"]),
        Column("Created", lambda row: when(row["created_at"], now), spare=2),
        Column("Expires", lambda row: when(row["expires_at"], now), spare=1),
        Column("Revoked", lambda row: when(row["revoked_at"], now)),
    )
    api.tell(api.get("/keys", limit=250), lambda answer: Listing(columns, answer["keys"], "There are no keys."))


@key.command("revoke")
@verb
def revoke_key(
    api: ApiCalls,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The id of a key.")],
) -> None:
    """Revoke a key. The key stops working at once."""
    answer = api.ask("DELETE", path("keys", key))
    api.tell(answer, lambda sentences: Sentences([f"The key {sentences['name']} ({sentences['id']}) is revoked."]))


@access.command("end")
@verb
def end_access(
    api: ApiCalls,
    credential: Annotated[
        str | None, typer.Option("--credential", metavar="TOKEN", help="This token; - reads it from stdin.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="All tokens of this name issued until now.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="The API key with this id (the same as `key revoke`)."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All tokens issued until now, all API keys and all sessions.")
    ] = False,
) -> None:
    """End access at once. Sessions end too, and open streams stop within a second."""
    token = sys.stdin.readline().strip() if credential == "-" else credential
    said = {"token": token, "name": name, "key": key, "all": everything or None}
    body = {way: value for way, value in said.items() if value is not None}
    if len(body) != 1:
        raise Invalid("Say which access to end: --credential, --name, --key or --all.")
    api.tell(api.post("/access/end", body), lambda ended: Sentences(_ended(ended)))


def _ended(ended: dict[str, Any]) -> list[str]:
    counted = f"API keys revoked: {ended['keys']}. Sessions ended: {ended['sessions']}."
    sentences = [f"Access ended: {ended['what']}. {counted}"]
    if not ended["what"].startswith(("key:", "token:")):
        sentences.append(f"Tokens issued until {ended['since']} are refused; create new ones after that.")
    return sentences
