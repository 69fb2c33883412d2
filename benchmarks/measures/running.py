"""Subjects as processes: their verbs, their workers, and the usage of these."""

import json
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks.catalogue import Stage
from benchmarks.environments import ROOT

PATIENCE = 120.0  # seconds for one run
LOOK_EVERY = 0.002


class Unwell(Exception):
    """A subject failed; the table says so."""


def run(stage: Stage, marks: Path, *words: str, **variables: str) -> Any:
    """Run a verb of a subject, and return its answer."""
    try:
        done = subprocess.run(
            [*stage.subject.installed, *words], env=environment(stage, marks, variables), cwd=ROOT,
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Unwell(f"{words[0]} took more than {PATIENCE:g} s") from None
    if done.returncode or not done.stdout.strip():
        raise Unwell(f"{words[0]}: {(done.stderr.strip().splitlines() or ['no answer'])[-1][:200]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


@contextmanager
def worker(stage: Stage, marks: Path, **variables: str) -> Iterator[psutil.Process]:
    """Run a worker process, with its children, during the block."""
    with marks.with_suffix(".log").open("w+") as log:
        process = subprocess.Popen(
            [*stage.subject.installed, "work"], env=environment(stage, marks, variables), cwd=ROOT,
            stdout=subprocess.DEVNULL, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        yield psutil.Process(process.pid)
    except Unwell as trouble:
        said = marks.with_suffix(".log").read_text().strip().splitlines()
        raise Unwell(f"{trouble}; its last words: {said[-1][:200]}" if said else str(trouble)) from None
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    family = _family(psutil.Process(process.pid)) if process.poll() is None else []
    for each in family:
        with suppress(psutil.Error):
            each.send_signal(signal.SIGTERM)
    _, alive = psutil.wait_procs(family, 3)
    for each in alive:
        with suppress(psutil.Error):
            each.kill()
    process.wait()


def environment(stage: Stage, marks: Path, variables: Mapping[str, str]) -> dict[str, str]:
    own = (
        "OSTINATO_",
        "PYTHONDONTWRITEBYTECODE",
    )  # compile Ostinato's bytecode: peers have theirs installed
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**kept, **stage.variables, **variables, "MARKS": str(marks), "PYTHONWARNINGS": "ignore"}


def until(true: Callable[[], bool], seconds: float = PATIENCE, what: str = "done") -> None:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise Unwell(f"not {what} after {seconds:g} s")
        time.sleep(LOOK_EVERY)


def cpu_seconds(process: psutil.Process) -> float:
    return _added_up(process, lambda each: sum(each.cpu_times()[:2]))


def megabytes(process: psutil.Process) -> float:
    return _added_up(process, lambda each: each.memory_info().rss / 2**20)


def _added_up(process: psutil.Process, figure: Callable[[psutil.Process], float]) -> float:
    """Return the usage of a process and its children, except those that have just ended (RQ forks for each job)."""
    total = 0.0
    for each in _family(process):
        with suppress(psutil.NoSuchProcess):
            total += figure(each)
    return total


def _family(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return [process, *process.children(recursive=True)]
    return []


def percentile(sorted_values: Sequence[float], share: float) -> float:
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))]


def middle(values: Sequence[float | None]) -> float | None:
    """Return the median, or None without values."""
    there = [value for value in values if value is not None]
    return statistics.median(there) if there else None
