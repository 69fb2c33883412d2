"""A: the HTTP API with 200 readers at once (`wrk`) and 10,000 jobs."""

import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.catalogue import Stage, Subject, stage
from benchmarks.environments import ROOT
from benchmarks.measures.rounds import Figures
from benchmarks.measures.running import Unwell, environment, run, until
from benchmarks.servers import Servers

READERS = 200
PATHS = {
    "list": "/api/v1/jobs?limit=50",
    "filter": "/api/v1/jobs?status=pending&task=noop&limit=50",
    "counts": "/api/v1/jobs/status-counts",
}
SPANS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}
QUANTILE = re.compile(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s|m) *$", re.M)
RATE = re.compile(r"^Requests/sec:\s+([\d.]+)$", re.M)
WRONG = re.compile(r"Non-2xx or 3xx responses: (\d+)")


class Doors:
    def __init__(self, servers: Servers, folder: Path, jobs: int, seconds: int) -> None:
        self._servers, self._folder, self._jobs, self._seconds = servers, folder, jobs, seconds

    def measure(self, subject: Subject) -> Figures:
        """Measure requests a second and latency of each path."""
        if shutil.which("wrk") is None:
            raise Unwell("wrk is not installed (Debian: apt install wrk)")
        marks, set_up = self._folder / "marks", stage(subject, self._servers, self._folder)
        run(set_up, marks, "setup", "0")
        run(set_up, marks, "fill", str(self._jobs))
        found: Figures = {}
        for name, path in PATHS.items():
            with _server(
                set_up, marks
            ) as address:  # a new server, since the old one still answers requests that wrk has dropped
                said = self._wrk(f"{address}{path}")
            quantiles = {at: float(value) * SPANS[unit] for at, value, unit in QUANTILE.findall(said)}
            found[f"{name}_p50"], found[f"{name}_p99"] = quantiles["50"], quantiles["99"]
            found[f"{name}_rate"] = float(RATE.findall(said)[0])
        return found

    def _wrk(self, url: str) -> str:
        words = ["wrk", "-t2", f"-c{READERS}", f"-d{self._seconds}s", "--timeout", "30s", "--latency", url]
        done = subprocess.run(words, capture_output=True, text=True, timeout=self._seconds + 60, check=False)
        if done.returncode or WRONG.search(done.stdout) or " 0 requests in " in done.stdout:
            raise Unwell(f"wrk got no good answer from {url}")
        return done.stdout


@contextmanager
def _server(set_up: Stage, marks: Path) -> Iterator[str]:
    """Run `ostinato serve` without a worker during the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-c",
        "from ostinato.program import main; main()",
        "serve",
        "--no-worker",
        "--port",
        str(port),
    ]
    process = subprocess.Popen(
        command,
        env=environment(set_up, marks, {}),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: _ready(f"http://127.0.0.1:{port}/readyz"), 60, "ready")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _ready(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
        return bool(answer.status == 200)
    return False
