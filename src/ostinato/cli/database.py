"""Commands of `ostinato db`: upgrade, check, backup, restore."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from ostinato.cli.codes import FOUND_SOMETHING
from ostinato.cli.output import Sentences, print_json, show
from ostinato.cli.progress import progress
from ostinato.core.read_models import DatabaseIdentity
from ostinato.service import maintenance


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
