"""The usual rate of failures of a job, and the rule that tells when the job fails above it.

The last runs are compared with all runs before them. Chance alone moves a count of failures by about its square root,
so a job that fails as often as before is not reported every second day.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Final

KNOWN: Final = 20  # with fewer runs a job has no usual rate
SPREAD: Final = 2  # square roots of the expected count
LONGEST_ERROR: Final = 160  # characters of an error


@dataclass(frozen=True, slots=True)
class Ended:
    """Counts of runs that ended, without the cancelled ones."""

    completed: int
    failed: int  # with the timed out and the lost ones

    @property
    def runs(self) -> int:
        return self.completed + self.failed


@dataclass(frozen=True, slots=True)
class Failing:
    """A job, or the run-once jobs of a task, with failures in the last day."""

    title: str
    task: str
    lately: Ended
    before: Ended
    error: str  # the most frequent one
    repeated: int

    @property
    def sentence(self) -> str:
        """Name the rate of failures, the usual rate and the error."""
        share = f"{self.lately.failed} of the last {self.lately.runs} runs failed"
        usual = f" ({_percent(self.before)} usually)" if self.before.runs >= KNOWN else ""
        times = "" if self.repeated == 1 else f"{self.repeated} times: "
        error = f"; {times}{self.error[:LONGEST_ERROR].rstrip('. ')}" if self.error else ""
        return f"{self.title}: {share}{usual}{error}"


def above_usual(lately: Ended, before: Ended) -> bool:
    """Decide whether the last runs failed more often than those before, or all of them."""
    if not lately.completed:
        return lately.failed > 0
    usual = before.failed / before.runs if before.runs >= KNOWN else 0.0
    expected = usual * lately.runs
    return lately.failed > max(1, expected + SPREAD * sqrt(expected))


def _percent(ended: Ended) -> str:
    return f"{100 * ended.failed / ended.runs:.3g} %"
