"""The auditor: recompute what the rows of a job must say, and list each contradiction.

`audit` is a pure rule. It takes the rows of one job as one snapshot has them and returns flaws; it changes nothing.

How far back it looks: to the newest change of the schedule, and not beyond what retention removed. Before that the
grid is unknown, so nothing is recomputed. The same holds for the time up to which a clock that was set back had been
ahead. A fixed delay has no grid: its due times are exempt.

    case.py         what is known of a job, and how far back it can be recomputed
    due_times.py    each due time has one record; the last and the next due time are right
    records.py      executions, live rows, numbers and counters agree with each other
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
