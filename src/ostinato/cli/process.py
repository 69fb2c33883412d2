"""The commands that stay: serve and worker."""

from collections.abc import Mapping
from dataclasses import dataclass

import typer

from ostinato.app import Ostinato
from ostinato.cli.loading import load_app


@dataclass(frozen=True, slots=True)
class Listening:
    """Where HTTP will listen."""

    host: str
    port: int


def serve(
    where: str | None, chosen: Mapping[str, object], listening: Listening, *, worker: bool, migrate: bool
) -> None:
    """Everything in one process."""
    app = load_app(where) if where is not None else Ostinato()
    app.configure(**chosen)
    typer.echo(f"HTTP comes with a later version; {listening.host}:{listening.port} stays closed for now.")
    app.run(worker=worker, migrate=migrate)


def work(where: str, chosen: Mapping[str, object], *, migrate: bool) -> None:
    """Run the jobs of an app."""
    app = load_app(where)
    app.configure(**chosen)
    app.run(migrate=migrate)
