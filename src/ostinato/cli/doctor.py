"""`ostinato doctor`: check of the whole installation, with advice for each problem."""

from contextlib import closing
from dataclasses import asdict

import typer

from ostinato.chance import RandomChance
from ostinato.cli.codes import FOUND_SOMETHING
from ostinato.cli.database import behind, opened
from ostinato.cli.output import Column, Listing, print_json, show
from ostinato.config import Grants, Settings
from ostinato.core.errors import ForeignDatabase, StoreError
from ostinato.service.doctor import Finding, FindingState, check_up
from ostinato.store.store import Store

COLUMNS = (
    Column("", lambda row: row["state"]),
    Column("Check", lambda row: row["subject"]),
    Column("Result", lambda row: row["finding"], cut=True),
)


def doctor(url: str | None, as_json: bool) -> None:
    """Run all checks, and show the problems with advice."""
    findings = _findings(url)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        show(Listing(COLUMNS, [asdict(finding) for finding in findings], ""))
        for advice in dict.fromkeys(f"{each.subject}: {each.advice}" for each in findings if each.advice):
            typer.echo(f"→ {advice}")
    if any(finding.state is FindingState.WRONG for finding in findings):
        raise typer.Exit(FOUND_SOMETHING)


def _findings(url: str | None) -> list[Finding]:
    with closing(opened(url)) as database:
        try:
            if flaw := behind(database):
                return [Finding("schema", FindingState.WRONG, flaw, "ostinato db upgrade")]
            store = Store(database, RandomChance())
            store.require_current()
            return check_up(store, Grants.of(Settings.load({"database_url": url}).permits))
        except StoreError as error:
            return [Finding("database", FindingState.WRONG, str(error), _advice(error))]


def _advice(error: StoreError) -> str:
    if isinstance(error, ForeignDatabase):
        return "Name another database, or use a newer Ostinato."
    return "Is it running, and does the URL name it? ostinato config show --origin"
