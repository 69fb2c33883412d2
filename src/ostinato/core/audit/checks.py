"""Every check of the auditor, in one list."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from ostinato.core.audit import due_times, records
from ostinato.core.audit.case import AuditFlaw, Case, EndedRun, FlawKind, Found, Past
from ostinato.core.encoding import policies_of, schedule_of
from ostinato.core.errors import NOT_READABLE
from ostinato.core.model import Job, Live, Skip
from ostinato.core.payload import decode

CHECKS: Final[tuple[Callable[[Case], Found], ...]] = (
    records.identities, records.counters, records.numbers, records.times, records.budgets, records.overlaps,
    records.places, records.workers, records.arguments, due_times.twice, due_times.left_over, due_times.last_due,
    due_times.next_time,
)  # fmt: skip
READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "schedule": schedule_of,
    "policies": policies_of,
    "tags": decode,
}  # each other column is a JSON object


def audit(
    job: Job,
    lives: Sequence[Live],
    executions: Sequence[EndedRun],
    skips: Sequence[Skip],
    past: Past,
    now: datetime,
) -> list[AuditFlaw]:
    """List the contradictions in the rows of one job, as one snapshot has them."""
    case = Case(job, lives, executions, skips, past, now)
    return [AuditFlaw(kind, job.id, told) for check in CHECKS for kind, told in check(case)]


def unreadable(job_id: UUID, texts: Mapping[str, str]) -> list[AuditFlaw]:
    """List the columns of a job that cannot be read, by name."""
    return [
        AuditFlaw(FlawKind.UNREADABLE, job_id, f"its {name} cannot be read: {text[:60]!r}")
        for name, text in texts.items()
        if not _is_readable(name, text)
    ]


def _is_readable(name: str, text: str) -> bool:
    if name not in READERS:
        return records.is_object(text)
    try:
        READERS[name](text)
    except NOT_READABLE:
        return False
    return True
