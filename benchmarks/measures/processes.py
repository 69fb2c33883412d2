"""M: two worker processes and one, the share of each, and the longest wait for SQLite's write lock.

It measures once all workers work: a second process that still imports would take a core from the first. The load of
the machine with one worker shows how much a second one can add.
"""

import json
import time
from contextlib import ExitStack
from pathlib import Path

import psutil

from benchmarks import marks
from benchmarks.catalogue import Subject, stage
from benchmarks.measures.rounds import Figures
from benchmarks.measures.running import run, until, worker
from benchmarks.servers import Servers


class Processes:
    def __init__(self, servers: Servers, folder: Path, scale: float = 1.0) -> None:
        self._servers, self._folder, self._scale = servers, folder, scale

    def measure(self, subject: Subject) -> Figures:
        """Measure one worker and two, one directly after the other."""
        one, _, _, busy = self._with(subject, 1)
        two, shares, waited, _ = self._with(subject, 2)
        return {
            "one": one,
            "two": two,
            "ratio": two / one,
            "least_share": min(shares),
            "longest_wait": waited,
            "busy": busy,
        }

    def _with(self, subject: Subject, workers: int) -> tuple[float, list[float], float | None, float]:
        files = [self._folder / f"marks{number}" for number in range(workers)]
        waits = [self._folder / f"waits{number}" for number in range(workers)]
        for file in (*files, *waits):
            file.unlink(missing_ok=True)
        set_up, jobs = stage(subject, self._servers, self._folder), max(10, int(subject.jobs * self._scale))
        run(set_up, files[0], "setup", "0")
        run(set_up, files[0], "fill", str(jobs))
        set_up.probe()
        with ExitStack() as stack:
            for file, wait in zip(files, waits, strict=True):
                stack.enter_context(worker(set_up, file, WAITS=str(wait)))
            until(lambda: all(marks.count(file) for file in files), what="all at work")
            psutil.cpu_percent()
            until(lambda: sum(map(marks.count, files)) >= jobs and set_up.probe())
            done, busy = time.time(), psutil.cpu_percent() / 100
        starts = [[when for _, when in marks.read(file)] for file in files]
        begin = max(map(min, starts))
        within = [sum(when >= begin for when in each) for each in starts]
        waited = [json.loads(wait.read_text()) for wait in waits if wait.exists()]
        shares = [count / sum(within) for count in within]
        return sum(within) / (done - begin), shares, max(waited, default=None), busy
