"""OpenTelemetry: spans of enqueues and runs, and metrics of runs. Nothing imports this unless the setting `otel` is on.

    request ── enqueue (PRODUCER) ── run, first attempt (CONSUMER)     one trace
                   └┄┄┄ link ┄┄┄┄┄┄┄ run, a retry or a late start      a trace of its own

The enqueue leaves its traceparent in the metadata of the job (core/trace.py). A worker begins the span of a run before
its task, and ends it with the outcome; a killed process ends its span, too. The task itself runs within the span: the
generator `in_trace` attaches it on the run's thread, on the loop, and in a process of its own.

Ostinato uses the API alone: the program, or `opentelemetry-instrument`, chooses an SDK and its exporters.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ostinato.core.model import Claimed, Definition, Execution, Live
from ostinato.core.outcome import (
    Begun,
    Cancelled,
    Completed,
    Deferred,
    Error,
    Failed,
    Interrupted,
    Lost,
    Outcome,
    OutcomeKind,
    TimedOut,
)
from ostinato.core.schedule import Once
from ostinato.core.trace import Sending, continues, traced, traceparent_of
from ostinato.task import Context, Registry
from ostinato.task.around import ours
from ostinato.task.signals import hide_frames_of
from ostinato.telemetry.reports import End, Telemetry

SYSTEM: Final = "ostinato"
TRACEPARENT: Final = "traceparent"
WORDS: Final[dict[type[Outcome], str]] = {
    Completed: "completed", Failed: "failed", TimedOut: "timed_out", Cancelled: "cancelled", Lost: "lost",
    Deferred: "deferred", Interrupted: "released", Begun: "begun",
}  # fmt: skip
SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)

log = logging.getLogger("ostinato.engine")

_TRACER: Final = trace.get_tracer("ostinato")
_FORMAT: Final = TraceContextTextMapPropagator()
_SPANS: Final = dict[Context, Span]()  # of the runs of this process

hide_frames_of(__file__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


def in_trace(ctx: Context) -> Iterator[None]:
    """Run a task within the span of its run; in a process of its own, within its traceparent."""
    span = _SPANS.get(ctx)
    within = _context_of(ctx.traceparent) if span is None else trace.set_span_in_context(span)
    token = contexts.attach(within)
    try:
        yield
    finally:
        contexts.detach(token)


IN_TRACE: Final = ours(in_trace)


def observe(telemetry: Telemetry, registry: Registry) -> None:
    """Trace and measure the runs of a worker."""
    registry.tracer = Runs()
    registry.arounds.put_first(IN_TRACE)
    telemetry.observers += (_Measures(),)


class Runs:
    """The spans of runs."""

    def begin(self, context: Context) -> None:
        """Begin the span of a run: a child of its enqueue, or in a trace of its own with a link to it."""
        with _harmless():
            self._begin(context)

    def _begin(self, context: Context) -> None:
        sent = _context_of(traceparent_of(context.definition.metadata))
        origin = trace.get_current_span(sent).get_span_context()
        is_child = origin.is_valid and continues(context.live)
        span = _TRACER.start_span(
            f"run {context.task}",
            context=sent if is_child else contexts.Context(),
            kind=SpanKind.CONSUMER,
            attributes=_attributes_of(context),
            links=[Link(origin)] if origin.is_valid and not is_child else None,
        )
        _SPANS[context] = span
        context.traceparent = _traceparent(trace.set_span_in_context(span))

    def end(self, context: Context, outcome: Outcome, raised: str | None) -> None:
        """End the span with the outcome of the run, and its error if it has one."""
        span = _SPANS.pop(context, None)
        if span is not None:
            with _harmless():
                _end(span, outcome, raised)


class Enqueues:
    """The spans of enqueues."""

    @contextmanager
    def sending(self, definitions: Sequence[Definition]) -> Iterator[Sending]:
        """Enqueue within a span, whose traceparent goes with the jobs that run once."""
        once = [each for each in definitions if isinstance(each.schedule, Once)]
        if not once:
            yield Sending(definitions)
            return
        tasks = {each.task for each in once}
        name = f"enqueue {once[0].task}" if len(tasks) == 1 else "enqueue"
        with _TRACER.start_as_current_span(name, kind=SpanKind.PRODUCER, attributes=_sent_by(once)) as span:
            traceparent = _traceparent(contexts.get_current())
            sending = Sending([each if traceparent is None else _with(traceparent, each) for each in definitions])
            yield sending
            if len(sending.job_ids) == 1:
                span.set_attribute("messaging.message.id", str(sending.job_ids[0]))
            else:
                span.set_attribute("messaging.batch.message_count", len(sending.job_ids))


class _Measures:
    """The metrics of runs."""

    def __init__(self) -> None:
        meter = metrics.get_meter("ostinato")
        self._durations = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of runs.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self._waits = meter.create_histogram(
            "ostinato.queue.waiting",
            "s",
            "Time between the earliest start and the start of runs.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )

    def started(self, claimed: Sequence[Claimed]) -> None:
        for each in claimed:
            live = each.live
            if live.started_at is not None:
                waited = (live.started_at - live.run_at).total_seconds()
                self._waits.record(max(waited, 0.0), _measured(live))

    def ended(self, about: Live | Execution, definition: Definition | None, end: End) -> None:
        if about.started_at is None or end.outcome is OutcomeKind.LOST:  # it never ran, or its end is not known
            return
        error = {"error.type": end.outcome.value} if end.outcome is not OutcomeKind.COMPLETED else {}
        took = (end.at - about.started_at).total_seconds()
        self._durations.record(max(took, 0.0), _measured(about) | error)


class IncomingTrace:
    """Middleware of our REST API: a request with `traceparent` continues that trace, if nothing else traces it."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = _given(scope)
        if given is None or trace.get_current_span().get_span_context().is_valid:
            await self._app(scope, receive, send)
            return
        token = contexts.attach(_context_of(given))
        try:
            await self._app(scope, receive, send)
        finally:
            contexts.detach(token)


def _given(scope: Scope) -> str | None:
    headers = scope["headers"] if scope["type"] == "http" else ()
    return next((value.decode("latin-1") for name, value in headers if name == b"traceparent"), None)


def _context_of(traceparent: str | None) -> contexts.Context:
    """Return the context of a traceparent; an empty one if there is none or it is wrong."""
    carrier = {} if traceparent is None else {TRACEPARENT: traceparent}
    return _FORMAT.extract(carrier, contexts.Context())


def _traceparent(context: contexts.Context) -> str | None:
    carrier = dict[str, str]()
    _FORMAT.inject(carrier, context)
    return carrier.get(TRACEPARENT)


def _with(traceparent: str, definition: Definition) -> Definition:
    if not isinstance(definition.schedule, Once):
        return definition
    return replace(definition, metadata=traced(definition.metadata, traceparent))


@contextmanager
def _harmless() -> Iterator[None]:
    """Keep an error of the SDK, its samplers and processors, from the run: only the span is lost."""
    try:
        yield
    except Exception:  # code of others
        log.exception("OpenTelemetry failed; the span of a run is lost")


def _end(span: Span, outcome: Outcome, raised: str | None) -> None:
    span.set_attribute("ostinato.outcome", WORDS[type(outcome)])
    match outcome:
        case Failed(error):
            _fail(span, error, raised or error.kind)
        case TimedOut() | Lost():
            _fail(span, outcome.error, WORDS[type(outcome)])
    span.end()


def _fail(span: Span, error: Error, kind: str) -> None:
    span.set_status(Status(StatusCode.ERROR, error.message))
    span.set_attribute("error.type", kind)
    attributes = {"exception.type": kind, "exception.message": error.message}
    if error.traceback is not None:
        attributes["exception.stacktrace"] = error.traceback
    span.add_event("exception", attributes)


def _attributes_of(context: Context) -> dict[str, str | int]:
    live = context.live
    attributes: dict[str, str | int] = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": "run",
        "messaging.operation.type": "process",
        "messaging.destination.name": live.queue,
        "messaging.message.id": str(live.job_id),
        "ostinato.task": live.task,
        "ostinato.execution": str(live.id),
        "ostinato.number": live.number,
        "ostinato.attempt": live.attempt,
        "ostinato.worker": context.worker,
    }
    if context.job_key is not None:
        attributes["ostinato.job.key"] = context.job_key
    return attributes | {"ostinato.step": live.step} if live.step else attributes


def _sent_by(definitions: Sequence[Definition]) -> dict[str, str]:
    queues, tasks = {each.queue for each in definitions}, {each.task for each in definitions}
    attributes = {"messaging.system": SYSTEM, "messaging.operation.name": "enqueue", "messaging.operation.type": "send"}
    if len(queues) == 1:
        attributes["messaging.destination.name"] = queues.pop()
    return attributes | {"ostinato.task": tasks.pop()} if len(tasks) == 1 else attributes


def _measured(about: Live | Execution) -> dict[str, str]:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": "run",
        "messaging.destination.name": about.queue,
        "ostinato.task": about.task,
    }
