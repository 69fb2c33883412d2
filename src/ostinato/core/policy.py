"""Policies of a job, their defaults and their words; delays between attempts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self, TypeVar, assert_never

from ostinato.core.errors import Invalid
from ostinato.core.times import Window

# -- Words of policies: each field and each value is declared with the text that forms, help and documents show

T = TypeVar("T")
WORDS: Final = "words"


class Choice(StrEnum):
    """Base class of the values of a policy: `SKIP = "skip", "skip the due time"`."""

    words: str

    def __new__(cls, value: str, words: str = "") -> Self:
        if not words:
            raise TypeError(f'{cls.__name__} {value!r} needs words: write NAME = "{value}", "what it does".')
        member = str.__new__(cls, value)
        member._value_ = value
        member.words = words
        return member


class FieldWords(NamedTuple):
    """Words of a field: label, one sentence of help, what applies where it is not set, name outside, and values."""

    label: str
    help: str
    unset: str
    outside: str  # empty: the name of the field
    choices: tuple[Choice, ...]


def worded(default: T, label: str, help: str, unset: str = "", outside: str = "") -> T:
    """Declare the default and the words of a field of a dataclass."""
    choices = tuple(type(default)) if isinstance(default, Choice) else ()
    return field(default=default, metadata={WORDS: FieldWords(label, help, unset, outside, choices)})


def words_of(kind: Any) -> dict[str, FieldWords]:
    """Return the words of the fields of a dataclass, by their names outside."""
    worded = ((each.name, each.metadata[WORDS]) for each in fields(kind) if WORDS in each.metadata)
    return {words.outside or name: words for name, words in worded}


# -- Delays between attempts


class BackoffKind(Choice):
    """The growth of the delay with the number of failures."""

    EXPONENTIAL = "exponential", "multiply the delay by the factor each time"
    LINEAR = "linear", "add the first delay each time"
    FIXED = "fixed", "repeat the first delay"
    STEPS = "steps", "take the delays of a list, one after the other"


@dataclass(frozen=True, slots=True)
class Backoff:
    """The delays between attempts."""

    kind: BackoffKind = worded(BackoffKind.EXPONENTIAL, "Growth of delays", "How the delay grows.")
    base: timedelta = worded(
        timedelta(seconds=60), "First delay", "Before the first retry; unset, at most the period of the job."
    )
    cap: timedelta = worded(
        timedelta(hours=1), "Longest delay", "No delay is longer; unset, at most the period of the job."
    )
    factor: float = worded(2.0, "Factor", "The factor of an exponential delay.")
    steps: tuple[timedelta, ...] = worded((), "Steps", "The delays, one after the other: 1m, 5m, 1h.")
    spread: float = worded(
        0.0, "Random share", "The share of a delay that chance may add or remove, 0 to 1.", outside="jitter"
    )
    never_retry: tuple[str, ...] = worded(
        (), "Never retry", "Names of errors that are not retried, such as ValueError."
    )
    within_period: bool = False  # base and cap are at most the period of the job

    def __post_init__(self) -> None:
        if self.base < timedelta(0) or self.cap < timedelta(0) or any(s < timedelta(0) for s in self.steps):
            raise Invalid("A backoff cannot be negative.")
        if self.factor < 1:
            raise Invalid(f"A backoff factor of {self.factor} would shrink the delays; use 1 or more.")
        if not 0 <= self.spread <= 1:
            raise Invalid(f"The jitter of a backoff is a share between 0 and 1, not {self.spread}.")
        if self.kind is BackoffKind.STEPS and not self.steps:
            raise Invalid("A backoff by steps needs at least one step.")


BACKOFF_WORDS: Final[Mapping[str, FieldWords]] = words_of(Backoff)
# The backoff of a recurring job that names none, in our own words. The doors of the seeds keep their figures.
UNNAMED: Final = Backoff(within_period=True)


def within(backoff: Backoff, period: timedelta | None) -> Backoff:
    """Bound base and cap by the period of a job, unless the user set them."""
    if period is None or not backoff.within_period:
        return backoff
    return replace(backoff, base=min(backoff.base, period), cap=min(backoff.cap, period))


def delay(backoff: Backoff, failures: int, chance: float) -> timedelta:
    """Return the wait after the n-th failure (from 1); `chance` is a number in [0, 1)."""
    plain = min(_unspread(backoff, max(failures, 1)), backoff.cap)
    return plain * (1 + backoff.spread * (2 * chance - 1))


def spread_out(wait: timedelta, chance: float) -> timedelta:
    """Multiply a wait by 0.5 to 1.5, for attempts that must not run side by side again."""
    return wait * (0.5 + chance)


def after_failure(
    backoff: Backoff, failures: int, wanted: timedelta | None, fraction: Callable[[], float]
) -> timedelta:
    """Return the wait before the next attempt; the task may have asked for another one."""
    return delay(backoff, failures, fraction()) if wanted is None else wanted


def after_loss(backoff: Backoff, losses: int, fraction: Callable[[], float]) -> timedelta:
    """Return the wait after a loss: none the first time, then apart from the runs that shared the worker."""
    return spread_out(delay(backoff, losses - 1, 0.5), fraction()) if losses > 1 else timedelta(0)


def _unspread(backoff: Backoff, failures: int) -> timedelta:
    match backoff.kind:
        case BackoffKind.EXPONENTIAL:
            return _grown(backoff, failures)
        case BackoffKind.LINEAR:
            return backoff.base * failures if failures <= _most(backoff) else backoff.cap
        case BackoffKind.FIXED:
            return backoff.base
        case BackoffKind.STEPS:
            return backoff.steps[min(failures, len(backoff.steps)) - 1]


def _grown(backoff: Backoff, failures: int) -> timedelta:
    """Grow step by step and stop at the cap: attempt 10,000 must not overflow."""
    wait = backoff.base
    for _ in range(failures - 1):
        if not wait or backoff.factor == 1:
            break
        if wait >= backoff.cap / backoff.factor:
            return backoff.cap
        wait *= backoff.factor
    return wait


def _most(backoff: Backoff) -> float:
    """Return the ratio of cap to base."""
    return backoff.cap / backoff.base if backoff.base else float("inf")


# -- Policies of a job, their defaults and their words


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

    CONTINUE = "continue", "continue with the next due time"
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
