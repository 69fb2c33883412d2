"""`make bench`: Ostinato and its peers. `--quick`: only Ostinato, in two minutes."""

import argparse
import json
import os
import platform
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import catalogue, page
from benchmarks.catalogue import Subject
from benchmarks.environments import NotInstalled, version_of
from benchmarks.measures.doors import Doors
from benchmarks.measures.jobs import BULK, Jobs
from benchmarks.measures.processes import Processes
from benchmarks.measures.recurring import Recurring
from benchmarks.measures.rounds import Figures, Row, in_rounds
from benchmarks.measures.sources import Sources
from benchmarks.measures.tables import Growth, Scale
from benchmarks.report import show
from benchmarks.servers import Servers
from benchmarks.targets import as_json, verdicts

MEASURES = {
    "T": "throughput", "H": "throughput with 100,000 jobs", "E": "enqueue", "L": "pickup latency", "F": "footprint",
    "D": "threads", "R": "recurring", "S": "scale", "G": "growth", "M": "many processes",
    "P": "runs in processes", "A": "the HTTP API", "N": "records from an API into a table",
}  # fmt: skip
TOO_LONG = ("H",)  # for --quick
KEEP_SCHEDULES = ("pgqueuer", "apscheduler", "procrastinate")
CHURN = 1800  # turns of 100 jobs: an hour with 50 jobs a second
OF_PEERS = 10  # seconds of recurring jobs; the share that a peer fires does not change later
RECURRING = {"OSTINATO_CONCURRENCY": "1000"}  # a claimed run starts at once: many may start at one instant


def main() -> None:
    given = _arguments()
    console = Console(width=None if sys.stdout.isatty() else 150)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # servers and workers end too
    if given.page is not None:
        page.write([json.loads(file.read_text()) for file in given.page])
        return
    began, measured = time.monotonic(), dict[str, list[Row]]()
    console.print(
        f"The machine's load is {os.getloadavg()[0]:.1f} at the beginning; the benchmarks make up to 2 of it."
    )
    with Servers() as servers, tempfile.TemporaryDirectory(prefix="ostinato-bench-") as folder:
        bench = Bench(given, servers, Path(folder))
        for letter in _letters(given):
            since = time.monotonic()
            measured[letter] = bench.measures[letter]()
            judged = [each for each in verdicts(measured) if each.measure == letter]
            show(letter, measured[letter], judged, console)
            console.print(f"{MEASURES[letter]}: {time.monotonic() - since:.0f} s\n")
            if given.json is not None:
                given.json.write_text(json.dumps(_as_json(measured, time.monotonic() - began), indent=1))
    console.print(f"{(time.monotonic() - began) / 60:.1f} minutes, load {os.getloadavg()[0]:.1f} at the end")


def _letters(given: argparse.Namespace) -> list[str]:
    if given.only:
        return [letter for letter in MEASURES if letter in given.only.upper().split(",")]
    return [letter for letter in MEASURES if letter not in TOO_LONG or not given.quick]


def _as_json(measured: dict[str, list[Row]], took: float) -> dict[str, Any]:
    return {"measures": measured, "targets": [as_json(each) for each in verdicts(measured)], **_about(took)}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    choices = ", ".join(f"{letter} {name}" for letter, name in MEASURES.items())
    parser.add_argument("--quick", action="store_true", help="ours alone, under two minutes")
    parser.add_argument("--only", help=f"measures, separated by commas: {choices}")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--peers", help="only these, by the names of their modules, separated by commas")
    parser.add_argument("--rounds", type=int, help="so many, for every subject")
    parser.add_argument("--page", type=Path, nargs="+", help="write docs/benchmarks.md from such files, and stop")
    parser.add_argument("--history", type=int, default=5_000_000, help="rows of history for G")
    parser.add_argument("--many", type=int, default=1_000_000, help="rows for S")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="a factor for the number of jobs, to try something out"
    )
    return parser.parse_args()


class Bench:
    """The measures, each as a call without arguments."""

    def __init__(self, given: argparse.Namespace, servers: Servers, folder: Path) -> None:
        self._quick: bool = given.quick
        self._wanted_rounds: int | None = given.rounds
        wanted = given.peers.split(",") if given.peers else {each.module for each in catalogue.PEERS}
        self._peers = [] if given.quick else [each for each in catalogue.PEERS if each.module in wanted]
        self._servers, self._folder = servers, folder
        self._jobs = Jobs(servers, folder, scale=given.scale, bulk=BULK // 5 if self._quick else BULK)
        self._history = min(given.history, 20_000) if self._quick else given.history
        self._many = min(given.many, 50_000) if self._quick else given.many
        self._scale: float = given.scale
        self.measures: dict[str, Callable[[], list[Row]]] = {
            "T": self.throughput, "H": self.much, "E": self.enqueue, "L": self.latency, "F": self.footprint,
            "D": self.threads, "R": self.recurring, "S": self.scale, "G": self.growth, "M": self.processes,
            "P": self.isolation, "A": self.doors, "N": self.sources,
        }  # fmt: skip

    def _with_peers(self, ours: Sequence[Subject]) -> list[Subject]:
        return [*ours, *self._peers]

    def _rounds(self, full: int | None, quick: int = 1) -> int | None:
        """Return the number of rounds; None: the subject's own number."""
        return self._wanted_rounds or (quick if self._quick else full)

    def _fewer(self, subjects: Sequence[Subject]) -> list[Subject]:
        """Return the subjects, with a quarter of the jobs for `--quick`."""
        return [replace(each, jobs=each.jobs // 4) for each in subjects] if self._quick else list(subjects)

    def throughput(self) -> list[Row]:
        ours = (*catalogue.OURS, *catalogue.LIMITS, *(() if self._quick else catalogue.OURS_BY_DEFAULT))
        return in_rounds(self._with_peers(ours), self._jobs.throughput, self._rounds(None), "T")

    def much(self) -> list[Row]:
        subjects = [*catalogue.OURS, *(each for each in self._peers if each is catalogue.PGQUEUER)]
        jobs = int(100_000 * self._scale)
        return in_rounds(subjects, lambda subject: self._jobs.throughput(subject, jobs), self._rounds(3), "H")

    def enqueue(self) -> list[Row]:
        subjects = [each for each in self._with_peers((*catalogue.OURS, *catalogue.LIMITS)) if each.enqueues]
        return in_rounds(subjects, self._jobs.enqueue, self._rounds(3), "E")

    def latency(self) -> list[Row]:
        ours = catalogue.OURS if self._quick else (*catalogue.OURS, *catalogue.OURS_BY_DEFAULT)
        subjects = [each for each in self._with_peers(ours) if each.latency]
        of_peers, of_ours = 100, 100 if self._quick else 200  # slow peers take most of the time

        def measure(subject: Subject) -> Figures:
            return self._jobs.latency(subject, of_peers if subject in self._peers else of_ours)

        return in_rounds(subjects, measure, self._rounds(3), "L")

    def footprint(self) -> list[Row]:
        one_each = {each.module: each for each in reversed(self._with_peers(catalogue.OURS)) if each.footprint}
        return in_rounds(list(one_each.values()), self._jobs.footprint, self._rounds(3), "F")

    def threads(self) -> list[Row]:
        subjects = [*catalogue.OURS, *catalogue.OURS_IN_THREADS]
        return in_rounds(self._fewer(subjects), self._jobs.throughput, self._rounds(5), "D")

    def isolation(self) -> list[Row]:
        peers = [each for each in self._peers if each in (catalogue.RQ_FORK, catalogue.CELERY_FORK)]
        ours = [*catalogue.OURS_IN_PROCESSES, *([] if self._quick else [catalogue.OURS_BY_RQ])]
        return in_rounds([*self._fewer(ours), *peers], self._jobs.throughput, self._rounds(3), "P")

    def doors(self) -> list[Row]:
        kept = Doors(self._servers, self._folder, int(10_000 * self._scale), 4 if self._quick else 10)
        return in_rounds(catalogue.OURS, kept.measure, self._rounds(3), "A")

    def sources(self) -> list[Row]:
        kept = Sources(self._servers, self._folder, max(1, int((20 if self._quick else 100) * self._scale)))
        subjects = catalogue.FETCHERS if self._quick else (*catalogue.FETCHERS, *catalogue.DLT)
        return in_rounds(subjects, kept.measure, self._rounds(3), "N")

    def recurring(self) -> list[Row]:
        ours = [replace(each, variables={**each.variables, **RECURRING}) for each in catalogue.OURS]
        peers = [each for each in self._peers if each.module in KEEP_SCHEDULES]
        kept = Recurring(self._servers, self._folder, 5 if self._quick else 20)
        of_peers = Recurring(self._servers, self._folder, OF_PEERS)
        rows: list[Row] = []
        for many in (1000,) if self._quick else (1000, 5000):
            count = max(10, int(many * self._scale))
            found = in_rounds(ours, partial(kept.measure, schedules=count), self._rounds(3), "R")
            found += in_rounds(peers, partial(of_peers.measure, schedules=count), 1, "R")
            rows += [{**row, "schedules": count} for row in found]
        return rows

    def scale(self) -> list[Row]:
        kept = Scale(self._servers, self._folder, self._many, 10_000)
        return in_rounds(catalogue.OURS, kept.measure, 1, "S")

    def growth(self) -> list[Row]:
        kept = Growth(self._servers, self._folder, self._history, churn=20 if self._quick else CHURN)
        return in_rounds(catalogue.OURS, kept.measure, 1, "G")

    def processes(self) -> list[Row]:
        kept = Processes(self._servers, self._folder, self._scale)
        twice = [replace(each, jobs=2 * each.jobs) for each in catalogue.OURS]
        subjects = [*twice, *catalogue.OURS_AT_WORK]
        return in_rounds(self._fewer(subjects), kept.measure, self._rounds(3), "M")


def _about(took: float) -> dict[str, Any]:
    """Return the time, the machine and the versions."""
    versions = {}
    for subject in catalogue.PEERS:
        try:
            versions[subject.name] = version_of(subject.environment, subject.package)
        except NotInstalled as error:
            versions[subject.name] = f"not installed: {error}"
    return {
        "at": datetime.now(UTC).isoformat(timespec="minutes"),
        "minutes": round(took / 60, 1),
        "load": os.getloadavg()[0],
        "machine": {
            "processor": _processor(), "cores": os.cpu_count(), "system": platform.platform(),
            "python": platform.python_version(), "sqlite": sqlite3.sqlite_version,
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        },
        "versions": versions,
    }  # fmt: skip


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


if __name__ == "__main__":
    main()
