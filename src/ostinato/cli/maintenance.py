"""Commands for a whole installation: `ostinato db …` and `ostinato doctor`."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from ostinato.cli.client import FOUND_SOMETHING
from ostinato.cli.output import Column, Listing, Sentences, print_json, progress, show
from ostinato.core.read_models import DatabaseIdentity
from ostinato.service import maintenance
from ostinato.service.doctor import FindingState

# -- Commands of `ostinato db`: upgrade, check, backup, restore


def upgrade(url: str | None, as_json: bool) -> None:
    """Create the schema, or upgrade it."""
    done = maintenance.upgrade(url)
    change = f"Applied {', '.join(done.notes)}." if done.notes else "The schema is up to date."
    _tell(
        {"database": done.name, **asdict(done.identity), "version": done.version, "applied": done.notes},
        [f"{done.name} is at version {done.version}.", _identity(done.identity), change],
        as_json,
    )


def check(url: str | None, as_json: bool) -> None:
    """Audit the database for inconsistencies."""
    found = maintenance.audit(url)
    _tell(
        {"database": found.name, **asdict(found.identity), "version": found.version, "problems": found.notes},
        [
            f"{found.name} is at version {found.version}.",
            _identity(found.identity),
            *(found.notes or ["No problems found."]),
        ],
        as_json,
    )
    if found.notes:
        raise typer.Exit(FOUND_SOMETHING)


def backup(file: Path, url: str | None, as_json: bool) -> None:
    """Copy the database into a file, while workers run."""
    with progress("Copying") as advance:
        identity = maintenance.backup(file, url, advance)
    size = file.stat().st_size
    lines = [f"{file} holds a full backup, {size:,} bytes.", _identity(identity)]
    _tell({"file": str(file), "bytes": size, **asdict(identity)}, lines, as_json)


def restore(file: Path, url: str | None, as_json: bool) -> None:
    """Restore a backup into an empty database."""
    with progress("Restoring") as advance:
        name, identity = maintenance.restore(file, url, advance)
    lines = [f"{file} was restored into {name}.", _identity(identity)]
    _tell({"database": name, "file": str(file), **asdict(identity)}, lines, as_json)


def _identity(identity: DatabaseIdentity) -> str:
    return f"The database is {identity}." if identity.database_id else "The database has no identity yet."


def _tell(answer: object, sentences: Sequence[str], as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        show(Sentences(sentences))


# -- `ostinato doctor`: check of the whole installation, with advice for each problem

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
