"""Policies of a job, their defaults and their words."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, assert_never

from ostinato.core.choice import Choice, FieldWords, worded, words_of
from ostinato.core.retry import Backoff
from ostinato.core.window import Window


class CatchUp(Choice):
    """Handling of due times that passed while no worker was running."""

    LATEST = "latest", "run only the newest missed time"
    ALL = "all", "run all missed times, up to catch_up_limit"
    NONE = "none", "skip all missed times"


class Overlap(Choice):
    """Handling of a due time while an occurrence of the job is live."""

    SKIP = "skip", "skip the due time"
    QUEUE_ONE = "queue_one", "let one occurrence wait"
    CANCEL_RUNNING = "cancel_running", "stop the live occurrence, then run"
    ALLOW = "allow", "run side by side, up to max_overlap"


class WhenExhausted(Choice):
    """Handling of a job whose occurrence has used up its retries."""

    CONTINUE = "continue", "go on with the next due time"
    FAIL = "fail", "fail the job, which stops its schedule"
    WAIT_RESET = "wait_reset", "wait until the retry budget is reset"


class OnLost(Choice):
    """Handling of an execution whose worker died."""

    RETRY = "retry", "run it again"
    FAIL = "fail", "fail it, because it must not run twice"

    @property
    def ends(self) -> bool:
        """Return True if a lost execution is not run again."""
        match self:
            case OnLost.RETRY:
                return False
            case OnLost.FAIL:
                return True
            case _:
                assert_never(self)


class FirstRun(Choice):
    """The first run of a recurring job."""

    NEXT = "next", "one period after the job is created, or at the next match"
    NOW = "now", "at once"

    @property
    def is_now(self) -> bool:
        """Return True if the first run is due when the job is made."""
        match self:
            case FirstRun.NEXT:
                return False
            case FirstRun.NOW:
                return True
            case _:
                assert_never(self)


class Isolation(Choice):
    """The place where a task's code runs."""

    ASYNC = "async", "on the event loop of the worker"
    THREAD = "thread", "in a thread of the worker"
    PROCESS = "process", "in a process of its own"


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a job: default, label, help, and what applies where a policy is not set."""

    first_run: FirstRun = worded(FirstRun.NEXT, "First run", "When the job runs for the first time.")
    start_at: datetime | None = worded(
        None, "Schedule start", "The beginning of the schedule, such as 2026-11-16T09:00:00Z."
    )
    end_at: datetime | None = worded(
        None, "Schedule end", "The last due time, inclusive, such as 2026-12-31T23:59:59Z."
    )
    fixed_delay: bool = worded(False, "Fixed delay", "Count the period from the end of a run, not from its due time.")
    total_repeats: int = worded(0, "Repeats", "Complete the job after this many successes of its schedule; 0: never.")
    window: Window | None = worded(
        None,
        "Window",
        'Skip due times outside {"days": "mon-fri", "from": "09:00", "to": "17:00", "timezone": "UTC"}.',
    )
    jitter: timedelta = worded(
        timedelta(0), "Jitter", "Delay each due time by up to this, always the same for one due time."
    )
    catch_up: CatchUp = worded(
        CatchUp.LATEST, "Catch-up", "What to do with due times that passed while no worker was running."
    )
    late_after: timedelta = worded(
        timedelta(minutes=1), "Missed after", "An older due time is missed; a newer one is late and runs."
    )
    catch_up_limit: int = worded(
        100, "Catch-up limit", "Maximum number of missed times that catch_up=all runs, the newest ones."
    )
    catch_up_within: timedelta | None = worded(
        None, "Catch-up within", "Missed times that are older than this do not run.", "any age"
    )
    overlap: Overlap = worded(
        Overlap.SKIP, "Overlap", "What to do with a due time while an occurrence of the job is live."
    )
    max_overlap: int = worded(1, "Overlap limit", "Maximum number of live occurrences with overlap=allow.")
    max_retries: int = worded(3, "Retries", "Attempts after the first one.", "3; 0 if it runs once")
    backoff: Backoff = worded(
        Backoff(),
        "Backoff",
        "The delay before the first retry; it doubles with each further one.",
        "1m, at most the period",
    )
    retry_reset_period: timedelta | None = worded(
        None, "Retry budget period", "The period for which failures are counted.", "one occurrence"
    )
    when_exhausted: WhenExhausted = worded(
        WhenExhausted.CONTINUE, "After the last retry", "What to do when all retries have failed."
    )
    on_lost: OnLost = worded(OnLost.RETRY, "Lost worker", "What to do with a run whose worker died.")
    timeout: timedelta | None = worded(None, "Timeout", "Maximum time of an attempt: 5m, 1h30m, or seconds.", "none")
    keep_executions: int | None = worded(
        None, "Executions kept", "Keep this many executions, however old they are.", "as set"
    )
    keep_days: int | None = worded(
        None, "Days kept", "Keep the executions that are at most this many days old.", "as set"
    )
    max_concurrency: int | None = worded(
        None,
        "Concurrency limit",
        "Maximum number of runs at once across all workers, by task or by concurrency_key.",
        "no limit",
    )
    concurrency_key: str | None = worded(
        None, "Concurrency key", "The runs that share the two limits, such as {args[tenant]}.", "its task"
    )
    rate_limit: str | None = worded(
        None,
        "Rate limit",
        "Maximum number of starts in a period, by task or by concurrency_key: 10/m, 5/s, 20/30s.",
        "no limit",
    )
    after: str | None = worded(None, "After", "The id or key of another job: run each time that it has completed.")
    cpu_limit: timedelta | None = worded(None, "CPU time", "Maximum CPU time of a run in its own process.", "no limit")
    memory_limit_mb: int | None = worded(
        None, "Memory (MB)", "Maximum memory of each process of a run in its own process.", "no limit"
    )
    open_files_limit: int | None = worded(
        None, "Open files", "Maximum number of open files of a run in its own process.", "no limit"
    )
    output_limit_mb: int | None = worded(
        None, "File size (MB)", "Maximum size of a file that a run in its own process writes.", "no limit"
    )
    run_args: tuple[str, ...] = worded(
        (), "Operators may set", "The args that an operator may set at a run: day, values.city.", "nothing"
    )


POLICY_WORDS: Final[Mapping[str, FieldWords]] = words_of(Policies)
