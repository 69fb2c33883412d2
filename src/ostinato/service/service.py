"""The Service: the entry to all commands and questions."""

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from ostinato.clock import Clock
from ostinato.config import Grants
from ostinato.core.builtin import NOTHING_ALLOWED, Permits
from ostinato.core.errors import Invalid
from ostinato.core.model import Chance, Event, Status
from ostinato.core.payload import check_queue_name
from ostinato.core.read_models import QueueRow, WorkerRow, is_wanted
from ostinato.service.access import AccessService, KeyService, Repeats, SessionService
from ostinato.service.dashboard import DashboardService
from ostinato.service.declarations import Declarations
from ostinato.service.doctor import Finding, Ungranted, check_up, few, ungranted
from ostinato.service.executions import ExecutionService
from ostinato.service.jobs import JobService
from ostinato.service.metrics import Gauges, Metrics, metrics
from ostinato.service.paging import PAGE_LIMIT
from ostinato.service.tasks import KnownTasks, TaskService, no_task
from ostinato.service.views import Ref
from ostinato.store.feed import Feed
from ostinato.store.store import Store
from ostinato.task import Task

P = TypeVar("P")

LOOKED_THROUGH: Final = 5_000  # events, for those of some kinds


class Service:
    """Every command and every question of one app."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        app: str = "",
        tasks: Callable[[], Collection[str]] = tuple,
        own: Callable[[str], Task[..., Any] | None] = no_task,
        permits: Permits = NOTHING_ALLOWED,
    ) -> None:
        """`tasks`: the names known to this process; `own`: finds a user's task; `permits`: for built-in ones."""
        self.store, self.clock, self.app, self.features = store, clock, app, store.database.features
        self._parts: dict[Any, Any] = {}
        self._grants = Grants.of(permits)
        known = self.known = KnownTasks(store, clock, tasks, own, permits)
        self.jobs = JobService(store, clock, chance, app, known)
        self.tasks = TaskService(known)
        self.executions = ExecutionService(store, clock, chance, lambda ref: self.jobs.get(ref).id)
        self.board = DashboardService(store, clock, self.jobs, self.executions)
        self.declarations = Declarations(store, clock, self.jobs, app)
        self.keys = KeyService(store, clock, chance)
        self.sessions = SessionService(store, clock)
        self.access = AccessService(store, clock, chance)
        self.repeats = Repeats(store, clock)

    def part(self, kind: Callable[["Service"], P]) -> P:
        """Return the commands and questions of a feature."""
        found: P | None = self._parts.get(kind)
        return self._parts.setdefault(kind, kind(self)) if found is None else found

    def now(self) -> datetime:
        """Return the time of the one clock."""
        return self.clock.now()

    def unready(self) -> list[str]:
        """List the reasons why this process cannot work now; StoreError when the database does not answer."""
        if self.store.is_current():
            return []
        return ["The schema of the database does not fit this program: upgrade the older of the two."]

    def status_counts(self, app: str | None = None) -> dict[Status, int]:
        """Count jobs by status, zeros included; of all apps, unless one is given."""
        return {**dict.fromkeys(Status, 0), **self.store.search.count_by_status(app)}

    def metrics(self) -> Metrics:
        """Return the figures of all apps."""
        figures = self.store.statistics
        return metrics(
            self.status_counts(),
            figures.counters(),
            figures.newest_runs(),
            figures.last_seen(),
            self.clock.now(),
        )

    def gauges(self) -> Gauges:
        """Return the figures for a monitor."""
        figures = self.store.statistics
        return Gauges(self.status_counts(), self.queues(), figures.at_work(self.clock.now()), figures.counters())

    def feed(self, job: Ref | None = None) -> Feed:
        """Return the feed of one job or of all, from now on or since a cursor; listeners may share it."""
        job_id = None if job is None else self.jobs.get(job).id
        return Feed(self.store.database, self.clock, job_id)

    def events(self, job: Ref | None, kinds: Collection[str], limit: int) -> list[Event]:
        """List events of these kinds, the newest first; `job.*` matches every kind with that prefix."""
        job_id = None if job is None else self.jobs.get(job).id
        found, before = list[Event](), None
        for _ in range(LOOKED_THROUGH // PAGE_LIMIT):
            page = self.store.history.events(PAGE_LIMIT, job_id, before)
            found += [event for event in page if is_wanted(event.kind, kinds)]
            if len(page) < PAGE_LIMIT or len(found) >= limit:
                break
            before = page[-1].id
        return found[:limit]

    def workers(self, since: timedelta = timedelta(days=1)) -> list[WorkerRow]:
        """List live and recent workers."""
        return self.store.workers.seen(self.clock.now(), since)

    def drain(self, worker_id: UUID, *, by: str = "") -> None:
        """Ask a worker to claim no more."""
        self.store.workers.drain(worker_id, self.clock.now(), by)

    def queues(self) -> list[QueueRow]:
        """List the queues, with counts of their waiting and running executions."""
        return self.store.workers.queues()

    def pause_queue(self, name: str, *, by: str = "") -> None:
        """Pause a queue: after the return nothing of it starts."""
        check_queue_name(name)
        self.store.workers.pause_queue(name, self.clock.now(), by)

    def resume_queue(self, name: str, *, by: str = "") -> None:
        check_queue_name(name)
        self.store.workers.resume_queue(name, self.clock.now(), by)

    def bound_queue(self, name: str, max_queued: int | None, *, by: str = "") -> None:
        """Let the schedule fire into a queue only while fewer than this may start; None: without bound."""
        check_queue_name(name)
        if max_queued is not None and max_queued < 1:
            raise Invalid(f"max_queued must be 1 or more, not {max_queued}.")
        self.store.workers.bound_queue(name, max_queued, self.clock.now(), by)

    def check_up(self) -> list[Finding]:
        """Return the findings of the doctor, with advice."""
        return check_up(self.store, self._grants)

    def ungranted(self) -> list[Ungranted]:
        """List the stored references to secrets that are not granted on this host."""
        return ungranted(self.store, self._grants)

    def warnings(self, named: Iterable[str], tasks: Collection[str] = ()) -> list[str]:
        """List those of these references to secrets that are not granted on this host; workers elsewhere may have them.

        List also those of these tasks that no worker has described.
        """
        refused = [self._grants.refusal(each) for each in dict.fromkeys(named) if not self._grants.allows(each)]
        unchecked = [
            f"No worker has described the task {name!r}: its args are not checked."
            for name in self.known.undescribed(tasks)
        ]
        return few(refused) + few(unchecked)

    def problems(self) -> list[str]:
        """List the flaws of the database."""
        return self.store.audit.problems()
