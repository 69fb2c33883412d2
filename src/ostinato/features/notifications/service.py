"""Commands and questions about hooks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from ostinato.core.addresses import PUBLIC_ONLY, Egress, check_url
from ostinato.core.auth import check_reference
from ostinato.core.errors import Conflict, Invalid, NotFound
from ostinato.core.times import format_duration
from ostinato.features.notifications.outbox import Delivery, Outbox, Tally
from ostinato.features.notifications.rules import Hook, Measure, NoticeKind, Threshold
from ostinato.service import Service
from ostinato.service.views import Ref

MOST_HOOKS: Final = 100
MOST_THRESHOLDS: Final = 10
LONGEST_DESCRIPTION: Final = 500
WINDOWS: Final = (timedelta(minutes=1), timedelta(days=7))
LATE: Final = (timedelta(seconds=1), timedelta(days=7))
LIMITS: Final = {Measure.SUCCESS_RATE: (0.0, 100.0), Measure.DURATION: (1.0, 1e6), Measure.LOSSES: (0.0, 1e6)}
PAGE_LIMIT: Final = 250


@dataclass(frozen=True, slots=True)
class NewHook:
    """The wanted hook."""

    url: str
    kinds: Sequence[NoticeKind] = ()
    job: Ref | None = None
    secret: str = ""
    late_after: timedelta = timedelta(minutes=1)
    thresholds: Sequence[Threshold] = ()
    description: str = ""


@dataclass(frozen=True, slots=True)
class _HookView:
    """A hook, and counts of its notices by state."""

    hook: Hook
    tally: Tally


class HookService:
    """Commands and questions about hooks."""

    def __init__(self, service: Service) -> None:
        self._outbox, self._jobs = service.store.part(Outbox), service.jobs
        self._clock, self._chance = service.clock, service.store.chance

    def create(self, new: NewHook, *, by: str = "", egress: Egress = PUBLIC_ONLY) -> _HookView:
        """Create a hook; every process uses it within seconds."""
        check_url(new.url, "url", egress)
        _check(new)
        if len(self._outbox.hooks()) >= MOST_HOOKS:
            raise Conflict(f"There are {MOST_HOOKS} hooks already: delete one first.")
        now = self._clock.now()
        job_id = None if new.job is None else self._jobs.get(new.job).id
        hook = Hook(
            self._chance.id(now), new.url, tuple(dict.fromkeys(new.kinds)), job_id, new.secret, new.late_after,
            tuple(new.thresholds), new.description, now, by,
        )  # fmt: skip
        self._outbox.add_hook(hook)
        return _HookView(hook, Tally())

    def list(self) -> list[_HookView]:
        """List the hooks, the oldest first."""
        tallies = self._outbox.tallies()
        return [_HookView(hook, tallies.get(hook.id, Tally())) for hook in self._outbox.hooks()]

    def get(self, hook_id: UUID) -> _HookView:
        for view in self.list():
            if view.hook.id == hook_id:
                return view
        raise NotFound(f"There is no hook {hook_id}.")

    def delete(self, hook_id: UUID, *, by: str = "") -> None:
        """Delete a hook and its waiting notices."""
        self._outbox.delete_hook(hook_id, self._clock.now(), by)

    def test(self, hook_id: UUID, *, by: str = "") -> UUID:
        """Send a notice of the kind `test` to a hook; return the id of the delivery."""
        text = f"This is a test, requested by {by}." if by else "This is a test."
        return self._outbox.add_test(self.get(hook_id).hook, text, self._clock.now())

    def deliveries(
        self, hook_id: UUID, limit: int = 50, before: UUID | None = None, state: str = ""
    ) -> Sequence[Delivery]:
        """List the deliveries of a hook, the newest first."""
        self.get(hook_id)
        return self._outbox.deliveries(hook_id, min(limit, PAGE_LIMIT), before, state)


def _check(new: NewHook) -> None:
    if not new.kinds and not new.thresholds:
        raise Invalid(f"A hook needs kinds ({', '.join(NoticeKind)}) or thresholds.")
    if new.secret:
        check_reference(new.secret, "secret")
    _check_between("late_after", new.late_after, LATE)
    if len(new.description) > LONGEST_DESCRIPTION or not new.description.isprintable():
        raise Invalid(f"description is at most {LONGEST_DESCRIPTION} printable characters.")
    if len(new.thresholds) > MOST_THRESHOLDS:
        raise Invalid(f"A hook has at most {MOST_THRESHOLDS} thresholds.")
    for threshold in new.thresholds:
        _check_threshold(threshold)


def _check_threshold(threshold: Threshold) -> None:
    more_than, most = LIMITS[threshold.measure]
    if not more_than < threshold.limit <= most:
        raise Invalid(f"The limit of {threshold.measure} must be more than {more_than:g} and at most {most:g}.")
    _check_between("window", threshold.window, WINDOWS)
    if not 1 <= threshold.least <= 1_000_000:
        raise Invalid("least must be from 1 to 1000000.")


def _check_between(what: str, value: timedelta, bounds: tuple[timedelta, timedelta]) -> None:
    least, most = bounds
    if not least <= value <= most:
        raise Invalid(f"{what} must be from {format_duration(least)} to {format_duration(most)}.")
