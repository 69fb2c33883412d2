"""What a process has counted and measured, for somebody who reads it."""

from collections.abc import Mapping
from dataclasses import dataclass

from ostinato.measures import RunTimes, StoreTimes, Totals
from ostinato.store.statistics import Counters
from ostinato.telemetry import Counts


@dataclass(frozen=True, slots=True)
class Measured:
    """What this process has counted and measured."""

    counts: Counts
    run_times: RunTimes
    store_times: StoreTimes
    executions: Totals[tuple[str, str]]  # by task and result, of all processes

    def take_in(self, counters: Mapping[str, Counters]) -> None:
        """What the jobs have counted, by task."""
        ended = ((task, each.ended.items()) for task, each in counters.items())
        self.executions.sample({(task, result): count for task, items in ended for result, count in items})
