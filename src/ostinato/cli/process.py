"""Commands that run until a signal: serve and worker."""

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from ostinato.app import Ostinato
from ostinato.app.listening import AppReference, Listening
from ostinato.app.loading import load_app
from ostinato.config import EngineKind


def serve(
    where: str | None, chosen: Mapping[str, object], listening: Listening, *, worker: bool, migrate: bool
) -> None:
    """Serve HTTP and run jobs. With RQ, one process does both, because it notifies RQ of each change."""
    app = load_app(where)
    app.configure(**chosen)
    if app.settings.http_process and app.settings.engine is not EngineKind.RQ:
        listening = replace(listening, apart=AppReference(where, chosen))
    app.run(worker=worker, migrate=migrate, listening=listening)
    _flush_or_discard()


def work(where: str | None, chosen: Mapping[str, object], *, migrate: bool) -> None:
    """Run the jobs of an app; without an app, run jobs with built-in tasks."""
    app = load_app(where)
    app.configure(**chosen)
    with _crew(app, where, chosen) if app.settings.engine is EngineKind.RQ else nullcontext():
        app.run(migrate=migrate)
    _flush_or_discard()


def _flush_or_discard() -> None:
    """Flush the output, and drop it if the device is full: otherwise Python would exit with code 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _crew(app: Ostinato, where: str | None, chosen: Mapping[str, object]) -> AbstractContextManager[object]:
    """Return the RQ workers, one for each concurrent run."""
    from ostinato.wiring import require_rq

    require_rq()
    from ostinato.rq.processes import Crew

    settings = app.settings
    return Crew(where, chosen, settings.concurrency, settings.shutdown_grace.total_seconds())
