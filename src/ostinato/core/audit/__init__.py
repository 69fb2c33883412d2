"""The auditor: it recomputes the rows of a job, and lists each contradiction.

`audit` is a pure rule. It takes the rows of one job as one snapshot has them and returns flaws; it changes nothing.

It looks back to the newest change of the schedule, and not beyond the rows that retention removed. Before that the
grid is unknown, so nothing is recomputed. The same holds for times up to which a wrong clock was ahead. A fixed delay
has no grid: its due times are exempt.

    case.py      the rows of a job, and how far back it can be recomputed
    checks.py    executions, live rows, numbers and counters agree with each other; each due time has one
                 record; the last and the next due time are right
"""

from ostinato.core.audit.case import AuditFlaw, Case, EndedRun, FlawKind, Past, Pruned, SetBack, set_back_of
from ostinato.core.audit.checks import audit, unreadable

__all__ = [
    "AuditFlaw",
    "Case",
    "EndedRun",
    "FlawKind",
    "Past",
    "Pruned",
    "SetBack",
    "audit",
    "set_back_of",
    "unreadable",
]
