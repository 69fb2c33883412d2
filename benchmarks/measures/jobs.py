"""T, E, L, F: throughput, enqueue, pickup latency, footprint."""

import statistics
import subprocess
import time
from pathlib import Path

from benchmarks import marks
from benchmarks.catalogue import Subject, stage
from benchmarks.measures.rounds import Figures
from benchmarks.measures.running import (
    Unwell,
    cpu_seconds,
    megabytes,
    percentile,
    run,
    until,
    worker,
)
from benchmarks.servers import Servers

IDLE = 1.5  # seconds to wait after the start, and then to measure
BULK = 50_000  # jobs: a second of work, so that a cold start matters little
STRAGGLERS = 12.0  # seconds for the last sent job to start: Huey sleeps up to 10


class Jobs:
    """Measures of jobs that run once."""

    def __init__(self, servers: Servers, folder: Path, *, scale: float = 1.0, bulk: int = BULK) -> None:
        self._servers, self._folder, self._scale, self._bulk = servers, folder, scale, bulk

    def throughput(self, subject: Subject, jobs: int | None = None) -> Figures:
        """Enqueue jobs, then start one worker; measure from the first start until the store has no jobs left."""
        count = jobs or max(10, int(subject.jobs * self._scale))
        file, set_up = self._fresh(), stage(subject, self._servers, self._folder)
        run(set_up, file, "setup", "0")
        run(set_up, file, "fill", str(count))
        set_up.probe()  # connect now, so that it is not timed
        with worker(set_up, file) as process:
            until(lambda: marks.count(file) >= count and set_up.probe())
            done = time.time()
            cpu = cpu_seconds(process)
        times = [when for _, when in marks.read(file)]
        if len({number for number, _ in marks.read(file)}) != count:
            raise Unwell(f"ran {len(times)} times for {count} jobs")
        return {
            "jobs": count,
            "per_second": count / (done - min(times)),
            "cpu_us": cpu / count * 1e6,
            "twice": len(times) - count,
        }

    def enqueue(self, subject: Subject) -> Figures:
        """Measure the jobs a second that one process enqueues: one by one, and in bulk."""
        found: Figures = {}
        for verb, count in (("single", subject.single), ("bulk", self._bulk)):
            file, set_up = self._fresh(), stage(subject, self._servers, self._folder)
            run(set_up, file, "setup", "0")
            found[verb] = run(set_up, file, verb, str(max(10, int(count * self._scale))))
        return found

    def latency(self, subject: Subject, samples: int) -> Figures:
        """Measure from the end of an enqueue in another process to the start of the job, with an idle worker."""
        file, set_up = self._fresh(), stage(subject, self._servers, self._folder)
        run(set_up, file, "setup", "0")
        if subject.latency_here:
            found: Figures = {}
            sent = run(set_up, file, "send", str(samples), HERE="yes")
        else:
            with worker(set_up, file) as process:
                time.sleep(IDLE + 0.5)
                before = cpu_seconds(process)
                time.sleep(IDLE)
                idle = (cpu_seconds(process) - before) / IDLE * 100
                found = {"idle_mb": megabytes(process), "idle_cpu": idle}
                sent = run(set_up, file, "send", str(samples))
                until(lambda: marks.count(file) >= samples, STRAGGLERS, "all started")
        started = dict(reversed(marks.read(file)))
        waits = sorted((started[number] - when) * 1000 for number, when in sent if number in started)
        if not waits:
            raise Unwell("nothing started")
        return found | {"p50": percentile(waits, 0.5), "p99": percentile(waits, 0.99), "samples": len(waits)}

    def footprint(self, subject: Subject) -> Figures:
        """Measure the time of the import, without the start of Python."""
        python = subject.installed[0]
        wanted = subject.imports or subject.module
        code = f"import time; t = time.perf_counter(); import {wanted}; print(time.perf_counter() - t)"
        runs = [_run_quietly([python, "-c", code]) for _ in range(3)]
        return {"import_ms": statistics.median(runs) * 1000}

    def _fresh(self) -> Path:
        file = self._folder / "marks"
        file.unlink(missing_ok=True)
        return file


def _run_quietly(command: list[str]) -> float:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    if done.returncode:
        raise Unwell(done.stderr.strip().splitlines()[-1][:200])
    return float(done.stdout.strip().splitlines()[-1])
