"""Delays between attempts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from ostinato.core.choice import Choice, FieldWords, worded, words_of
from ostinato.core.errors import Invalid


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
