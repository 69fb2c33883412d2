"""`ostinato doctor`: check of the whole installation, with advice for each problem."""

from dataclasses import asdict

import typer

from ostinato.cli.codes import FOUND_SOMETHING
from ostinato.cli.output import Column, Listing, print_json, show
from ostinato.service import maintenance
from ostinato.service.doctor import FindingState

COLUMNS = (
    Column("", lambda row: row["state"]),
    Column("Check", lambda row: row["subject"]),
    Column("Result", lambda row: row["finding"], cut=True),
)


def doctor(url: str | None, as_json: bool) -> None:
    """Run all checks, and show the problems with advice."""
    findings = maintenance.findings(url)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        show(Listing(COLUMNS, [asdict(finding) for finding in findings], ""))
        for advice in dict.fromkeys(f"{each.subject}: {each.advice}" for each in findings if each.advice):
            typer.echo(f"→ {advice}")
    if any(finding.state is FindingState.WRONG for finding in findings):
        raise typer.Exit(FOUND_SOMETHING)
