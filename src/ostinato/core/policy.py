"""Policies of a job, and their defaults."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from ostinato.core.retry import Backoff
from ostinato.core.window import Window


class CatchUp(StrEnum):
    """Handling of due times that passed while no worker was running."""

    LATEST = "latest"
    ALL = "all"
    NONE = "none"


class Overlap(StrEnum):
    """Handling of a due time while an occurrence of the job is live."""

    SKIP = "skip"
    QUEUE_ONE = "queue_one"
    CANCEL_RUNNING = "cancel_running"
    ALLOW = "allow"


class WhenExhausted(StrEnum):
    """Handling of a job whose occurrence has used up its retries."""

    CONTINUE = "continue"
    FAIL = "fail"
    WAIT_RESET = "wait_reset"


class OnLost(StrEnum):
    """Handling of an execution whose worker died."""

    RETRY = "retry"
    FAIL = "fail"


class FirstRun(StrEnum):
    """The first run of a recurring job."""

    NEXT = "next"  # one period after its creation, or the next match
    NOW = "now"


class Isolation(StrEnum):
    """The place where a task's code runs."""

    ASYNC = "async"  # on the worker's loop
    THREAD = "thread"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a job, with their defaults."""

    first_run: FirstRun = FirstRun.NEXT
    start_at: datetime | None = None
    end_at: datetime | None = None
    fixed_delay: bool = False
    total_repeats: int = 0
    window: Window | None = None
    jitter: timedelta = timedelta(0)
    catch_up: CatchUp = CatchUp.LATEST
    late_after: timedelta = timedelta(minutes=1)
    catch_up_limit: int = 100
    catch_up_within: timedelta | None = None
    overlap: Overlap = Overlap.SKIP
    max_overlap: int = 1
    max_retries: int = 3
    backoff: Backoff = Backoff()
    retry_reset_period: timedelta | None = None
    when_exhausted: WhenExhausted = WhenExhausted.CONTINUE
    on_lost: OnLost = OnLost.RETRY
    timeout: timedelta | None = None
    keep_executions: int | None = None
    keep_days: int | None = None
    max_concurrency: int | None = None  # across all workers; by task, or by concurrency_key
    concurrency_key: str | None = None  # such as "{args[tenant]}"
    rate_limit: str | None = None  # such as "10/m", by the same key
    after: str | None = None  # the id or key of a job: run when that has completed
    cpu_limit: timedelta | None = None  # this and the next three: of a run in a process of its own
    memory_limit_mb: int | None = None  # of any one of its processes
    open_files_limit: int | None = None
    output_limit_mb: int | None = None
    run_args: tuple[str, ...] = ()  # the args that an operator may set at a run (core/run_args.py)
