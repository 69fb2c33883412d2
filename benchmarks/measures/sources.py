"""N: records a second from an API on loopback into a table, and the memory for it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.catalogue import Subject, stage
from benchmarks.environments import ROOT
from benchmarks.measures.rounds import Figures
from benchmarks.measures.running import Unwell, run
from benchmarks.servers import Servers
from tests.servers import free_port

SIZE = 1000  # records per page


class Sources:
    def __init__(self, servers: Servers, folder: Path, pages: int) -> None:
        self._servers, self._folder, self._pages = servers, folder, pages

    def measure(self, subject: Subject) -> Figures:
        """Measure from the first request to the last row."""
        set_up = stage(subject, self._servers, self._folder)
        with _api(self._pages) as url:
            found = run(set_up, self._folder / "marks", "fetch", url)
        if found["records"] != self._pages * SIZE:
            raise Unwell(f"{found['records']:g} records arrived of {self._pages * SIZE}")
        return {"per_second": found["records"] / found["seconds"], "growth_mb": found["growth_mb"],
                "cpu_us": 1e6 * found["cpu"] / found["records"], "records": found["records"]}  # fmt: skip


@contextmanager
def _api(pages: int) -> Iterator[str]:
    port = free_port()
    words = [sys.executable, "-m", "benchmarks.subjects.records_api", str(port), str(pages), str(SIZE)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield f"http://127.0.0.1:{port}/records"
        finally:
            process.kill()
