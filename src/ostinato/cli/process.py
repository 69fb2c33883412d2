"""The commands that stay: serve and worker."""

from collections.abc import Mapping

from ostinato.app import Ostinato
from ostinato.app.serving import Listening
from ostinato.cli.loading import load_app


def serve(
    where: str | None, chosen: Mapping[str, object], listening: Listening, *, worker: bool, migrate: bool
) -> None:
    """Everything in one process."""
    app = load_app(where) if where is not None else Ostinato()
    app.configure(**chosen)
    app.run(worker=worker, migrate=migrate, listening=listening)


def work(where: str, chosen: Mapping[str, object], *, migrate: bool) -> None:
    """Run the jobs of an app."""
    app = load_app(where)
    app.configure(**chosen)
    app.run(migrate=migrate)
