"""`ostinato hook …`: webhooks for events of jobs."""

from typing import Annotated, Any, Final

import typer

from ostinato.cli.client import path
from ostinato.cli.output import Answer, Column, FactsTable, Listing, Sentences, at_length, when
from ostinato.cli.verbs import ApiCalls, YesOption, confirm, verb
from ostinato.core.errors import Invalid

hook = typer.Typer(rich_markup_mode=None)
GROUPS: Final = {"hook": hook}

HookArgument = Annotated[str, typer.Argument(metavar="HOOK", help="The id of a hook.")]


@hook.command("add")
@verb
def add(
    api: ApiCalls,
    url: Annotated[str, typer.Argument(metavar="URL", help="The address that receives the notices.")],
    kind: Annotated[
        list[str],
        typer.Option("--kind", metavar="KIND", help="Kind of notice, such as failure; repeatable."),
    ] = [],  # noqa: B006
    job: Annotated[str | None, typer.Option("--job", metavar="JOB", help="Only this job (default: all jobs).")] = None,
    secret: Annotated[
        str | None,
        typer.Option("--secret", metavar="REFERENCE", help="Signs notices: env:SECRET_NAME or file:PATH."),
    ] = None,
    late_after: Annotated[
        str | None,
        typer.Option("--late-after", metavar="DURATION", help="Delay that counts as late_start, such as 1m."),
    ] = None,
    threshold: Annotated[
        list[str],
        typer.Option("--threshold", metavar="MEASURE:LIMIT:WINDOW", help="Such as success_rate:80:1h; repeatable."),
    ] = [],  # noqa: B006
    description: Annotated[str, typer.Option("--description", metavar="TEXT", help="A note for people.")] = "",
) -> None:
    """Add a webhook."""
    body: dict[str, object] = {
        "url": url, "kinds": kind, "job": job, "secret": secret,
        "thresholds": [_threshold(text) for text in threshold], "description": description,
    }  # fmt: skip
    if late_after is not None:
        body["late_after"] = late_after
    api.tell(api.post("/hooks", body), lambda made: FactsTable(_facts(made, api.now())))


@hook.command("list")
@verb
def list_hooks(api: ApiCalls) -> None:
    """List all webhooks, with the number of their notices by state."""
    columns = (
        Column("Hook", lambda row: row["id"]),
        Column("URL", lambda row: row["url"], cut=True),
        Column("Events", _events, spare=1, cut=True),
        Column("Pending", lambda row: row["pending"], right=True),
        Column("Delivered", lambda row: row["delivered"], spare=2, right=True),
        Column("Given up", lambda row: row["given_up"], right=True),
    )
    api.tell(api.get("/hooks"), lambda answer: Listing(columns, answer["hooks"], "There are no hooks."))


@hook.command("show")
@verb
def show_hook(api: ApiCalls, hook: HookArgument) -> None:
    """Show one webhook."""
    api.tell(api.get(path("hooks", hook)), lambda found: FactsTable(_facts(found, api.now())))


@hook.command("deliveries")
@verb
def deliveries(
    api: ApiCalls,
    hook: HookArgument,
    state: Annotated[
        str | None, typer.Option("--state", metavar="STATE", help="pending, delivered or given_up.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", help="Maximum number of notices, up to 250.")
    ] = 50,
) -> None:
    """List the deliveries of a webhook, the newest first."""
    now = api.now()
    columns = (
        Column("Delivery", lambda row: row["id"]),
        Column("Kind", lambda row: row["kind"]),
        Column("State", lambda row: row["state"]),
        Column("Created", lambda row: when(row["created_at"], now), spare=1),
        Column("Attempts", lambda row: row["attempts"], spare=2, right=True),
        Column("Answer", lambda row: row["answer"] or row["error"] or "", spare=3, cut=True),
    )
    answer = api.get(path("hooks", hook, "deliveries"), state=state, limit=limit)
    api.tell(answer, lambda found: Listing(columns, found["deliveries"], "No deliveries match."))


@hook.command("test")
@verb
def test(api: ApiCalls, hook: HookArgument) -> None:
    """Send a test notice."""
    api.tell(
        api.post(path("hooks", hook, "test")),
        lambda sent: Sentences([f"The notice {sent['delivery_id']} waits for a worker to send it."]),
    )


@hook.command("delete")
@verb
def delete(api: ApiCalls, hook: HookArgument, yes: YesOption = False) -> None:
    """Delete a webhook. Pending notices are not sent."""
    confirm(yes, "Pending notices are deleted with their hook", f"Delete the hook {hook}?")
    api.tell(api.ask("DELETE", path("hooks", hook)), lambda answer: Sentences([answer["message"]]))


def _threshold(text: str) -> dict[str, object]:
    measure, _, rest = text.partition(":")
    limit, _, window = rest.partition(":")
    try:
        return {"measure": measure, "limit": float(limit), "window": window}
    except ValueError:
        raise Invalid(f"--threshold {text} is not MEASURE:LIMIT:WINDOW, such as success_rate:80:1h.") from None


def _events(row: Answer) -> str:
    return ", ".join([*row["kinds"], *(_words(each) for each in row["thresholds"])])


def _words(threshold: Answer) -> str:
    return f"{threshold['measure']} {threshold['limit']:g} in {threshold['window']}"


def _facts(row: Answer, now: Any) -> dict[str, object]:
    return {
        "Hook": row["id"],
        "URL": row["url"],
        "Events": _events(row),
        "Job": row["job_id"],
        "Secret": row["secret"],
        "Late after": row["late_after"],
        "Description": row["description"],
        "Notices": f"{row['pending']} pending, {row['delivered']} delivered, {row['given_up']} given up",
        "Created": at_length(row["created_at"], now),
        "Created by": row["created_by"],
    }
