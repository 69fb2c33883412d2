"""The real SDKs of OpenTelemetry and Sentry, which keep in memory what they would send."""

import asyncio
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import sentry_sdk
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ostinato import Ostinato
from tests.app.conftest import during
from tests.observe import traced


@cache
def exporter() -> InMemorySpanExporter:
    """Choose the SDK for this process; that is possible once."""
    found, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    trace.set_tracer_provider(provider)
    return found


@cache
def reader() -> InMemoryMetricReader:
    found = InMemoryMetricReader({Histogram: AggregationTemporality.DELTA})
    metrics.set_meter_provider(MeterProvider([found]))
    return found


class Spans:
    """The spans that have ended, by kind."""

    def __init__(self) -> None:
        self._exporter = exporter()
        self._exporter.clear()

    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def of(self, kind: str) -> list[ReadableSpan]:
        return [span for span in self.all() if span.kind.name == kind]

    def one(self, kind: str) -> ReadableSpan:
        (span,) = self.of(kind)
        return span


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def measured() -> Callable[[str], list[Any]]:
    """Return the data points of a metric since the last look."""
    metric_reader = reader()
    metric_reader.get_metrics_data()

    def points(name: str) -> list[Any]:
        data = metric_reader.get_metrics_data()
        resources = data.resource_metrics if data is not None else []
        scopes = [scope for each in resources for scope in each.scope_metrics]
        return [
            point for scope in scopes for each in scope.metrics if each.name == name for point in each.data.data_points
        ]

    return points


@pytest.fixture
def app(database_url: str) -> Iterator[Ostinato]:
    """The app of traced.py on a fresh database; a test configures it before its first use."""
    app = traced.app
    app.configure(database_url=database_url, otel=False, sentry=False)
    arounds, tracer = list(app.registry.arounds.registered), app.registry.tracer
    yield app
    app.close()
    app.registry.arounds.registered[:], app.registry.tracer = arounds, tracer
    app._declared.clear()


def run(app: Ostinato, task: str, *, retries: int = 0, timeout: str | None = None, **args: Any) -> Any:
    """Enqueue a task, run it, and return the ended run."""
    options: dict[str, Any] = {"retries": retries, "backoff": "10ms"} | ({"timeout": timeout} if timeout else {})

    async def body() -> Any:
        return await app.registry.get(task).using(**options).enqueue(**args).await_()

    return during(app, body)


class Envelopes(sentry_sdk.transport.Transport):
    """A transport that keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[tuple[str, dict[str, Any]]] = []

    def capture_envelope(self, envelope: Any) -> None:
        self.items += [(item.type, item.payload.json) for item in envelope.items]

    def events(self) -> list[dict[str, Any]]:
        return [payload for kind, payload in self.items if kind == "event"]

    def check_ins(self) -> list[dict[str, Any]]:
        return [payload for kind, payload in self.items if kind == "check_in"]


@pytest.fixture
def envelopes() -> Iterator[Envelopes]:
    """Initialise Sentry as a program does, and forget it afterwards."""
    kept = Envelopes()
    sentry_sdk.init(dsn="https://key@example.invalid/1", transport=kept, environment="test")
    yield kept
    sentry_sdk.get_client().close(timeout=0)
    sentry_sdk.get_global_scope().set_client(None)


__all__ = ["Envelopes", "Spans", "asyncio", "during", "run"]
