"""Repeating jobs as schedules, with the words and counters of seed 001."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ostinato.core.errors import NotFound
from ostinato.core.model import Ending, Facts
from ostinato.core.outcome import OutcomeKind
from ostinato.core.read_models import LastRun
from ostinato.core.schedule import is_recurring
from ostinato.features.schedules_api.rows import Counted, Schedules
from ostinato.service import JobView, Service
from ostinato.service.paging import Page, check_page
from ostinato.service.views import Ref


class Word(StrEnum):
    """The status of a schedule."""

    ACTIVE = "active"
    PAUSED = "paused"
    DONE = "done"
    DEAD = "dead"


def word_of(facts: Facts) -> Word:
    """Return the status word: a paused schedule is so at once, while a run finishes. The list does this in SQL."""
    if facts.cancelled_at is not None:
        return Word.DEAD
    if facts.ended_at is not None:
        return Word.DONE if facts.ended_as is Ending.COMPLETED else Word.DEAD
    return Word.ACTIVE if facts.paused_at is None else Word.PAUSED


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A repeating job, its newest run, its last error, and its counters at the last restart."""

    job: JobView
    last: LastRun | None
    error: str | None
    before: Counted | None

    @property
    def word(self) -> Word:
        return word_of(self.job.facts)

    @property
    def run_count(self) -> int:
        """Successes since the last restart."""
        return self.job.facts.completed - (0 if self.before is None else self.before.completed)

    @property
    def error_count(self) -> int:
        return self.job.facts.errors - (0 if self.before is None else self.before.errors)

    @property
    def current_retry(self) -> int:
        """Failures in a row of the current occurrence, or of the one that was given up."""
        lives = [live for live in self.job.lives if live.slot is not None]
        if lives:
            return max(live.failures for live in lives)
        last = self.last
        if last is None or not last.outcome.is_failure or not self.error_count:
            return 0
        return last.failures + (last.outcome is not OutcomeKind.LOST)

    @property
    def last_error(self) -> str:
        """The newest error message since the last restart; empty if there is none."""
        return "" if self.error is None or not self.error_count else self.error


class ScheduleService:
    """Queries about schedules; commands go to their jobs."""

    def __init__(self, service: Service) -> None:
        self._rows, self._jobs, self._store = service.store.part(Schedules), service.jobs, service.store

    def get(self, ref: Ref) -> ScheduleView:
        """Return one schedule; a job that runs once is none."""
        try:
            view = self._jobs.get(ref)
        except NotFound:
            raise NotFound(f"There is no schedule {ref}.") from None
        if not is_recurring(view.definition.schedule):
            raise NotFound(f"There is no schedule {ref}: the job of this id does not repeat.")
        return self.of([view])[0]

    def page(self, word: Word | None, tag: str | None, limit: int, offset: int) -> Page[ScheduleView]:
        """Return a page of schedules, the newest first; with a `tag` only those that have it."""
        check_page(limit, offset)
        ids, total = self._rows.page(word, tag, limit, offset)
        found = self._store.jobs.get(ids)
        views = [JobView.of(found[job_id]) for job_id in ids if job_id in found]
        return Page(self.of(views), total, None)

    def of(self, views: Sequence[JobView]) -> list[ScheduleView]:
        """Make schedules of jobs."""
        if not views:
            return []
        ids = [view.id for view in views]
        last, errors = self._jobs.last_runs(views), self._rows.last_errors(ids)
        before = self._rows.restarts(ids)
        return [ScheduleView(view, last.get(view.id), errors.get(view.id), before.get(view.id)) for view in views]
