"""Commands that a status allows, for pages and lists. The commands check again, under the job's lock."""

from typing import Final

from ostinato.core.model import Status

ALIVE: Final = frozenset({Status.PENDING, Status.SCHEDULED, Status.QUEUED, Status.RUNNING})
ENDED: Final = frozenset({Status.COMPLETED, Status.FAILED})
ALLOWED: Final = {  # in the order in which they are offered
    "run": frozenset(Status) - {Status.CANCELLED},
    "retry": frozenset({Status.FAILED}),
    "restart": ENDED,
    "pause": ALIVE,
    "resume": frozenset({Status.PAUSED}),
    "cancel": ALIVE | {Status.PAUSED},
    "delete": frozenset(Status),
}


def allowed(status: Status, *, is_paused: bool = False) -> tuple[str, ...]:
    """List the commands of a job in this status. A paused job may still run, or be run by hand."""
    paused = is_paused and status is not Status.CANCELLED
    by_pause = Status.PAUSED if paused else status
    return tuple(
        command
        for command, states in ALLOWED.items()
        if (by_pause if command in ("pause", "resume") else status) in states
    )
