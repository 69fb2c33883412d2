"""The identity of a worker."""

from dataclasses import dataclass
from datetime import timedelta

from ostinato.core.built_in import Permits
from ostinato.core.policy import Isolation
from ostinato.isolation.plan import Plan


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a worker: its app, queues, concurrency and permissions."""

    app: str
    version: str
    queues: tuple[str, ...]
    concurrency: int
    lease: timedelta
    processes: Plan = Plan()
    functions: Isolation = Isolation.THREAD  # where `def` tasks run that do not say it themselves
    keep_log: int = 10 * 1024 * 1024  # bytes of an execution's log
    permits: Permits = Permits()
