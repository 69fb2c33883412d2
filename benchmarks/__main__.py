"""`make bench`: throughput and latency, a table on the terminal, JSON with --json."""

import argparse
import json
import statistics
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import measures, ours
from benchmarks.measures import Latency, Subject, Throughput
from tests.servers import PostgresServer

DEFAULTS = {"OSTINATO_CONCURRENCY": "5"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    server = PostgresServer.private()
    try:
        with tempfile.TemporaryDirectory(prefix="ostinato-bench-") as folder:
            throughputs, latencies = _measure(given, Path(folder), server.url("postgres"))
    finally:
        server.close()
    imported = measures.import_seconds()
    _show(throughputs, latencies, imported)
    if given.json is not None:
        figures = {"throughput": [asdict(t) for t in throughputs], "latency": [asdict(x) for x in latencies]}
        given.json.write_text(json.dumps(figures | {"import_seconds": imported}, indent=1))


def _measure(given: argparse.Namespace, folder: Path, url: str) -> tuple[list[Throughput], list[Latency]]:
    """Rounds are interleaved: a busy moment of the machine hits every subject."""
    subjects = [
        ("100 at once", ours.on_sqlite(folder)),
        ("100 at once", ours.on_postgres(url)),
        ("defaults", ours.on_sqlite(folder, **DEFAULTS)),
        ("defaults", ours.on_postgres(url, **DEFAULTS)),
        ("def tasks", ours.on_sqlite(folder, KIND="thread")),
        ("def tasks", ours.on_postgres(url, KIND="thread")),
    ]
    rounds: dict[int, list[Throughput]] = {}
    for _ in range(given.rounds):
        for place, (_, subject) in enumerate(subjects):
            rounds.setdefault(place, []).append(measures.throughput(subject, given.jobs, folder))
    throughputs = [_named(label, _median(rounds[place])) for place, (label, _) in enumerate(subjects)]
    latencies = [measures.latency(subject, given.samples, folder) for subject in _idle(folder, url)]
    return throughputs, latencies


def _idle(folder: Path, url: str) -> list[Subject]:
    return [ours.on_sqlite(folder, **DEFAULTS), ours.on_postgres(url, **DEFAULTS)]


def _median(runs: list[Throughput]) -> Throughput:
    middle = statistics.median_low(run.per_second for run in runs)
    return next(run for run in runs if run.per_second == middle)


def _named(label: str, run: Throughput) -> Throughput:
    return Throughput(**asdict(run) | {"subject": f"{run.subject}, {label}"})


def _show(throughputs: list[Throughput], latencies: list[Latency], imported: float) -> None:
    console = Console()
    table = Table("subject", "store", "jobs/s", "enqueued/s", "CPU µs/job", "MB", title="Throughput")
    for run in throughputs:
        table.add_row(
            run.subject, run.store, f"{run.per_second:,.0f}", f"{run.enqueued_per_second:,.0f}",
            f"{run.cpu_per_job_us:,.0f}", f"{run.worker_mb:.0f}",
        )  # fmt: skip
    console.print(table)
    table = Table("subject", "store", "p50 ms", "p99 ms", "idle MB", "idle CPU %", title="Pickup latency")
    for each in latencies:
        table.add_row(
            each.subject, each.store, f"{each.p50_ms:.2f}", f"{each.p99_ms:.2f}", f"{each.idle_mb:.0f}",
            f"{each.idle_cpu_percent:.1f}",
        )  # fmt: skip
    console.print(table)
    console.print(f"import ostinato: {imported * 1000:.0f} ms")


if __name__ == "__main__":
    main()
