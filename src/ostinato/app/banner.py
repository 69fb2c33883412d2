"""Start lines of a process: its database, its jobs and their next times."""

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Final

from ostinato.config import EngineKind, LogFormat, Settings
from ostinato.config.extras import our_version
from ostinato.core.errors import NotFound
from ostinato.core.model import Status
from ostinato.core.payload import LogMessage
from ostinato.core.schedule import Cron
from ostinato.core.zones import wall_at, zone
from ostinato.service import JobView
from ostinato.service.declarations import Applied
from ostinato.service.secret_grants import Ungranted, few

if TYPE_CHECKING:
    from socket import socket

    from ostinato.app.app import Ostinato
    from ostinato.app.listening import Listening

LOGGER: Final = logging.getLogger("ostinato")
SHOWN_SETTINGS: Final = ("timezone", "poll_interval", "lease", "concurrency")
WIDEST: Final = 40  # of a column; longer text shifts the next column


def announce(
    app: "Ostinato",
    applied: Applied,
    worker: bool,
    bound: "socket | None" = None,
    listening: "Listening | None" = None,
) -> None:
    """Print the start lines to stdout (not if logs are JSON), and log one line."""
    missing = app.scheduler.ungranted()
    if app.settings.log_format is LogFormat.TEXT:
        lines = [*banner(app, applied, worker, bound, listening), *_secrets(missing)]
        _write("\n".join(lines) + "\n\n")
    shown = app.settings.shown()
    fields: dict[str, object] = {name: shown[name] for name in SHOWN_SETTINGS}
    if bound is not None:
        fields["http"] = _url(bound)
    fields |= {"created": len(applied.created), "changed": len(applied.changed)}
    if applied.declined:
        fields["declined"] = ", ".join(applied.declined)
    if missing:
        fields["secrets_not_granted"] = ", ".join(few([each.reference for each in missing]))
    LOGGER.info(LogMessage("Starting scheduler", {"database": app.parts.store.database.name} | fields))


def banner(
    app: "Ostinato",
    applied: Applied,
    worker: bool,
    bound: "socket | None" = None,
    listening: "Listening | None" = None,
) -> Iterator[str]:
    """List the start lines for people."""
    yield f"Ostinato {our_version()}" + (f", app {app.name}" if app.name else "")
    yield f"  database  {app.parts.store.database.name}"
    yield f"  timezone  {app.settings.timezone}"
    yield f"  worker    {_worker(app, worker)}"
    if bound is not None:
        yield f"  http      {_url(bound)}  (docs at /docs)"
        yield f"  processes {_process(app.settings, listening)}"
        yield f"  auth      {_auth(app.settings, bound)}"
    yield f"  jobs      {_summary(applied)}"
    views = list(_declared_jobs(app))
    keys = [str(view.key) for view in views]
    schedules = [view.when for view in views]
    for key, schedule, view in zip(keys, schedules, views, strict=True):
        news = "created" if key in applied.created else "changed" if key in applied.changed else ""
        first, second = min(max(map(len, keys)), WIDEST), min(max(map(len, schedules)), WIDEST)
        yield f"    {key:<{first}}  {schedule:<{second}}  {_next(view, app.settings.timezone):<31} {news}".rstrip()
    for key in applied.gone:
        yield f"  {key} is no longer declared, but its job still exists. Delete it, or declare it again."
    for key in applied.declined:
        yield f"  {key} was deleted and stays deleted. To bring it back: ostinato job redeclare {quote(key)}"
    for key in applied.blocked:
        yield f"  {key} runs after a deleted job. It is created when that job exists again."


def _write(text: str) -> None:
    """Write to stdout. A full device, a closed pipe or a missing stdout must not stop the process."""
    if sys.stdout is not None:
        with suppress(OSError):
            sys.stdout.write(text)
            sys.stdout.flush()


def _declared_jobs(app: "Ostinato") -> Iterator[JobView]:
    """List the declared jobs that exist; an operator may delete one at any time."""
    for definition in app.declared:
        with suppress(NotFound):
            yield app.jobs.get(definition.key or "")


def _secrets(missing: Sequence[Ungranted]) -> Iterator[str]:
    lines = [f"{each.reference} ({each.user}) is not granted on this host. {each.advice}" for each in missing]
    yield from (f"  {line}" for line in few(lines))


def _url(bound: "socket") -> str:
    from ostinato.app.listening import url_of

    return url_of(bound)


def _process(settings: Settings, listening: "Listening | None") -> str:
    if listening is not None and listening.apart is not None:
        return "two: this one runs jobs, another one answers HTTP"
    if settings.engine is not EngineKind.LOCAL:
        return f"one: it also serves HTTP (engine {settings.engine})"
    if not settings.http_process:
        return "one: it also serves HTTP (OSTINATO_HTTP_PROCESS=off)"
    return "one: it also serves HTTP (started by app.run)"


def _auth(settings: Settings, bound: "socket") -> str:
    from ostinato.access.credentials import is_loopback

    if settings.auth_secret or settings.auth_public_key:
        return "tokens and API keys"
    if settings.auth_required:
        return "API keys"
    return (
        "none: only this host has access"
        if is_loopback(bound.getsockname()[0])
        else "NONE: other hosts have full access"
    )


def _worker(app: "Ostinato", worker: bool) -> str:
    if app.settings.engine is not EngineKind.LOCAL:
        return f"none here: this process queues due jobs, {app.settings.engine.upper()} workers run them"
    if not worker:
        return "none here: this process queues due jobs, other workers run them"
    queues, many = app.settings.queues, app.settings.concurrency
    served = "all queues" if not queues else f"queue{'s' * (len(queues) > 1)} {', '.join(queues)}"
    return f"{served}, {many} at once"


def _summary(applied: Applied) -> str:
    counts = {"created": applied.created, "changed": applied.changed, "unchanged": applied.unchanged}
    shown = [f"{len(keys)} {word}" for word, keys in counts.items() if keys]
    return ", ".join(shown) or "none declared"


def _next(view: JobView, timezone: str) -> str:
    if view.next_run_at is None:
        return str(view.status)
    schedule = view.definition.schedule
    at = written(view.next_run_at, schedule.timezone if isinstance(schedule, Cron) else timezone)
    return at if view.status in (Status.SCHEDULED, Status.QUEUED) else f"{at}, {view.status}"


def written(at: datetime, timezone: str) -> str:
    """Write an instant in a time zone."""
    return f"{wall_at(at, zone(timezone)):%Y-%m-%d %H:%M:%S} {timezone}"
