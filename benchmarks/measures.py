"""What is measured, and how: always from outside, by marks and by what the store shows."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks import marks

PATIENCE = 120.0  # seconds for one measurement


@dataclass(frozen=True)
class Subject:
    """Somebody to measure: a script, a Python to run it with, and how to see that all work is settled."""

    name: str
    store: str
    command: tuple[str, ...]
    unsettled: Callable[[], int]
    reset: Callable[[], None]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Throughput:
    """Jobs per second, from the first start until the store shows all of them done."""

    subject: str
    store: str
    jobs: int
    per_second: float
    enqueued_per_second: float
    cpu_per_job_us: float
    worker_mb: float


@dataclass(frozen=True)
class Latency:
    """From the return of `enqueue` in another process to the start of the task, worker idle."""

    subject: str
    store: str
    p50_ms: float
    p99_ms: float
    idle_mb: float
    idle_cpu_percent: float


def throughput(subject: Subject, jobs: int, folder: Path) -> Throughput:
    """Enqueue beforehand, then start one worker process and wait until everything is settled."""
    subject.reset()
    file = _fresh(folder / "marks")
    filled = json.loads(_run(subject, file, "fill", str(jobs)))
    with _worker(subject, file) as worker:
        _until(lambda: marks.count(file) >= jobs and subject.unsettled() == 0)
        done = time.time()
        cpu, memory = _cpu(worker), _memory(worker)
    times = [when for _, when in marks.read(file)]
    if len(times) != jobs:
        raise RuntimeError(f"{subject.name} ran {len(times)} of {jobs}.")
    return Throughput(
        subject.name,
        subject.store,
        jobs,
        jobs / (done - min(times)),
        filled["per_second"],
        cpu / jobs * 1e6,
        memory,
    )


def latency(subject: Subject, samples: int, folder: Path) -> Latency:
    """Let the worker become idle, then enqueue from another process with pauses."""
    subject.reset()
    file = _fresh(folder / "marks")
    with _worker(subject, file) as worker:
        time.sleep(2)  # what is measured is an idle worker: start-up must be over
        before = _cpu(worker)
        time.sleep(2)
        idle, memory = (_cpu(worker) - before) / 2, _memory(worker)
        sent = json.loads(_run(subject, file, "send", str(samples)))
        _until(lambda: marks.count(file) >= samples)
    started = dict(marks.read(file))
    waits = sorted((started[number] - when) * 1000 for number, when in sent)
    return Latency(
        subject.name,
        subject.store,
        statistics.median(waits),
        waits[int(len(waits) * 0.99)],
        memory,
        idle * 100,
    )


def _run(subject: Subject, file: Path, *verb: str) -> str:
    environment = os.environ | subject.environment | {"MARKS": str(file)}
    done = subprocess.run(
        [*subject.command, *verb],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{subject.name} {verb[0]}: {done.stderr.strip()[-500:]}")
    return done.stdout.strip().splitlines()[-1]


@contextmanager
def _worker(subject: Subject, file: Path) -> Iterator[psutil.Process]:
    environment = os.environ | subject.environment | {"MARKS": str(file)}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([*subject.command, "work"], env=environment, stdout=quiet, stderr=quiet)
    try:
        yield psutil.Process(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not done after {PATIENCE:g} s")
        time.sleep(0.01)


def _fresh(file: Path) -> Path:
    file.unlink(missing_ok=True)
    return file


def _family(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def _cpu(process: psutil.Process) -> float:
    return sum(sum(each.cpu_times()[:2]) for each in _family(process))


def _memory(process: psutil.Process) -> float:
    return sum(each.memory_info().rss for each in _family(process)) / 2**20


def import_seconds(repeats: int = 5) -> float:
    """How long `import ostinato` takes, beyond starting Python."""
    command = "import time; t = time.perf_counter(); import ostinato; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout
            for _ in range(repeats)]  # fmt: skip
    return statistics.median(map(float, runs))
