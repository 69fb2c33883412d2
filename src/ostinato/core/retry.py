"""Delays between attempts."""

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final

from ostinato.core.errors import Invalid


class BackoffKind(StrEnum):
    """The growth of the delay with the number of failures."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    FIXED = "fixed"
    STEPS = "steps"


@dataclass(frozen=True, slots=True)
class Backoff:
    """The delays between attempts. `spread` is the share of a delay that chance may add or take away."""

    kind: BackoffKind = BackoffKind.EXPONENTIAL
    base: timedelta = timedelta(seconds=60)
    cap: timedelta = timedelta(hours=1)
    factor: float = 2.0
    steps: tuple[timedelta, ...] = ()
    spread: float = 0.0
    never_retry: tuple[str, ...] = ()  # names of errors that no further attempt can mend
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


# The backoff of a recurring job that names none, in our own words. The doors of the seeds keep their figures.
UNNAMED: Final = Backoff(within_period=True)


def within(backoff: Backoff, period: timedelta | None) -> Backoff:
    """Bound base and cap by the period of a job, unless somebody chose them."""
    if period is None or not backoff.within_period:
        return backoff
    return replace(backoff, base=min(backoff.base, period), cap=min(backoff.cap, period))


def delay(backoff: Backoff, failures: int, chance: float) -> timedelta:
    """The wait after the n-th failure (from 1); `chance` is a number in [0, 1)."""
    plain = min(_unspread(backoff, max(failures, 1)), backoff.cap)
    return plain * (1 + backoff.spread * (2 * chance - 1))


def spread_out(wait: timedelta, chance: float) -> timedelta:
    """Between half and one and a half times `wait`: for attempts that must not come back side by side."""
    return wait * (0.5 + chance)


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
