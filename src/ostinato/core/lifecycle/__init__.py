"""The life of a job: every rule that changes one, and nothing else.

Each rule takes a job, its live rows and the time, and returns a `Change`. The store locks the job,
calls the rule and saves what it returns, so that facts, counters, queue and history move together.

    create ──► fire ──► (a worker claims) ──► settle ──► fire ──► …
                 │                              │
                 └─ skip, with its reason       ├─ completed      the occurrence is over
                                                ├─ failed, lost   another attempt, or the occurrence is over
                                                └─ released       back in the queue, nothing spent

`fast_path` decides the usual firing and the usual success at less cost; it says what `fire` and `settle` say.

Three thoughts run through all of it.

*Every due time has one record.* `last_due_at` is the greatest due time dealt with; `next_due_at` the next
to look at. Between them nothing is forgotten: what does not run is a skip, and where a schedule stops or
changes, what had come due and was not fired is one too.

*`next_due_at` may be empty while something is live.* With a fixed delay, and while `catch_up: all` works
off a backlog, the next time is named by the settle (`course.go_on`).

*Operators win.* A job that is paused, cancelled, deleted or ended queues nothing again, whatever a run
that is still in progress comes to.
"""

from ostinato.core.lifecycle.adopting import Adopted, FormerState, PastRun, adopt
from ostinato.core.lifecycle.commands import (
    cancel,
    cancel_execution,
    create,
    delete,
    edit,
    pause,
    release,
    restart,
    resume,
    retry,
    run,
)
from ostinato.core.lifecycle.due_times import backoff_of
from ostinato.core.lifecycle.firing import Dealt, fire, follow, rewind
from ostinato.core.lifecycle.settling import settle, time_out_run
from ostinato.core.lifecycle.status import ALLOWED, allowed, next_run_at, status

__all__ = [
    "ALLOWED",
    "Adopted",
    "Dealt",
    "FormerState",
    "PastRun",
    "adopt",
    "allowed",
    "backoff_of",
    "cancel",
    "cancel_execution",
    "create",
    "delete",
    "edit",
    "fire",
    "follow",
    "next_run_at",
    "pause",
    "release",
    "restart",
    "resume",
    "retry",
    "rewind",
    "run",
    "settle",
    "status",
    "time_out_run",
]
