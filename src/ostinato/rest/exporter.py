"""The metrics of a process for Prometheus: figures from the database, and counts and times of the process.

Each scrape reads the database. If the database does not answer, `ostinato_store_up` is 0 and the rest is still shown.
Nothing here needs FastAPI: the probe of a worker shows metrics, too.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from ostinato.core.errors import StoreError
from ostinato.service import Service
from ostinato.service.metrics import Gauges
from ostinato.telemetry.measures import Snapshot
from ostinato.telemetry.process_metrics import MetricsSnapshot, MetricsSource
from ostinato.telemetry.reports import Counts

# Not the library's choose_encoder: it fails on an odd Accept header.
PLAIN: Final = (generate_latest, CONTENT_TYPE_PLAIN_0_0_4)
OPEN_METRICS: Final = (openmetrics.generate_latest, openmetrics.CONTENT_TYPE_LATEST)
OPEN_METRICS_TYPE: Final = "application/openmetrics-text"

# The kind of count, the name of the metric, its label, and its description.
COUNTED: Final = (
    ("claimed", "ostinato_claims", "", "Executions claimed by this process."),
    ("retry", "ostinato_retries", "", "Retries queued by this process."),
    ("released", "ostinato_releases", "why", "Executions released by this process, by reason."),
    ("refused", "ostinato_stale_results_refused", "", "Late results of this process that were rejected."),
    ("lease_lost", "ostinato_leases_lost", "", "Leases lost by this process."),
    ("worker_lost", "ostinato_workers_lost", "", "Workers that this process found lost."),
    ("skipped", "ostinato_skipped_due_times", "reason", "Due times skipped by this process, by reason."),
    ("store_error", "ostinato_store_errors", "", "Failed calls of this process to the database."),
    (
        "access_refused",
        "ostinato_refused_credentials",
        "credential",
        "Requests that this process refused, by credential.",
    ),
    ("flaw", "ostinato_audit_flaws", "flaw", "Flaws found by the auditor of this process."),
    ("clock_jump", "ostinato_clock_jumps", "", "Jumps of the system clock seen by this process."),
)


class _Exporter(Collector):
    """Collector that reads all metrics at each scrape."""

    def __init__(self, service: Service, measuring: MetricsSource, version: str, refused: Counts) -> None:
        self._service, self._measuring, self._version, self._refused = service, measuring, version, refused
        of_features = (line for module in service.features.modules("metrics") for line in module.COUNTED)
        self._counted: tuple[tuple[str, str, str, str], ...] = (*COUNTED, *of_features)

    def collect(self) -> Iterator[Metric]:
        measured = self._measuring.measurement()
        yield _gauge("ostinato_info", "Version of Ostinato.", "version", {self._version: 1})
        try:
            gauges = self._service.gauges()
        except StoreError:
            gauges = None
        yield _gauge("ostinato_store_up", "Whether the database answers.", "", {"": int(gauges is not None)})
        if gauges is not None:
            self._measuring.executions.take_in(gauges.counters)
            yield from _of_database(gauges)
        yield self._executions()
        yield from self._counts({**measured.counts, **self._refused.snapshot()})
        yield from _times(measured)

    def _executions(self) -> Metric:
        family = CounterMetricFamily(
            "ostinato_executions", "Ended executions of all processes.", labels=["task", "outcome"]
        )
        for (task, outcome), count in sorted(self._measuring.executions.snapshot().items()):
            family.add_metric([task, outcome], count)
        return family

    def _counts(self, counts: Mapping[tuple[str, str], int]) -> Iterator[Metric]:
        for what, name, label, about in self._counted:
            family = CounterMetricFamily(name, about, labels=[label] if label else [])
            found = {which: count for (kind, which), count in counts.items() if kind == what}
            for which, count in sorted((found if label or found else {"": 0}).items()):
                family.add_metric([which] if label else [], count)
            yield family


def _times(measured: MetricsSnapshot) -> Iterator[Metric]:
    durations = HistogramMetricFamily(
        "ostinato_execution_duration_seconds", "Duration of the runs of this process.", labels=["task"]
    )
    lateness = HistogramMetricFamily(
        "ostinato_execution_lateness_seconds",
        "Delay between the earliest start and the start of the runs of this process.",
        labels=["task"],
    )
    for task, (took, late) in sorted(measured.run_times.items()):
        _add(durations, [task], took)
        _add(lateness, [task], late)
    store = HistogramMetricFamily(
        "ostinato_store_seconds", "Duration of the engine's calls to the database.", labels=[]
    )
    _add(store, [], measured.store_times)
    yield from (durations, lateness, store)


def _of_database(gauges: Gauges) -> Iterator[Metric]:
    yield _gauge("ostinato_jobs", "Jobs by status.", "status", gauges.jobs.items())
    queues = gauges.queues
    yield _gauge(
        "ostinato_queue_waiting",
        "Waiting executions by queue.",
        "queue",
        ((q.name, q.queued) for q in queues),
    )
    yield _gauge(
        "ostinato_queue_running",
        "Running executions by queue.",
        "queue",
        ((q.name, q.running) for q in queues),
    )
    paused = ((q.name, int(q.paused_at is not None)) for q in queues)
    yield _gauge("ostinato_queue_paused", "Whether a queue is paused.", "queue", paused)
    at_work = gauges.at_work
    yield _gauge("ostinato_workers", "Live workers.", "", {"": at_work.workers})
    yield _gauge(
        "ostinato_worker_slots",
        "Maximum number of runs at once, of all live workers.",
        "",
        {"": at_work.concurrency},
    )
    yield _gauge("ostinato_worker_running", "Runs in progress, of all live workers.", "", {"": at_work.running})


def _gauge(
    name: str, about: str, label: str, values: "dict[str, int] | Iterable[tuple[str, int]]"
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, about, labels=[label] if label else [])
    for which, value in values.items() if isinstance(values, dict) else values:
        family.add_metric([which] if label else [], value)
    return family


def _add(family: HistogramMetricFamily, labels: list[str], snapshot: Snapshot) -> None:
    buckets = [("+Inf" if bound == inf else repr(bound), count) for bound, count in snapshot.buckets]
    family.add_metric(labels, buckets, snapshot.sum)


class PrometheusText:
    """All metrics of the process that runs the jobs. A separate HTTP process is shown too."""

    def __init__(self, service: Service, measuring: MetricsSource, version: str, refused: Counts) -> None:
        """`refused` counts refused credentials."""
        self._registry = CollectorRegistry()
        ProcessCollector(pid=lambda: measuring.pid, registry=self._registry)
        if measuring.pid != os.getpid():
            ProcessCollector(namespace="ostinato_http", registry=self._registry)
        collectors: tuple[Callable[..., object], ...] = (PlatformCollector, GCCollector)
        for collector in collectors:
            collector(registry=self._registry)
        self._registry.register(_Exporter(service, measuring, version, refused))

    def written(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics and their content type, in the format that a scraper accepts."""
        encode, content_type = OPEN_METRICS if OPEN_METRICS_TYPE in accept else PLAIN
        return encode(self._registry), content_type
