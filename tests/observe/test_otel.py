"""OpenTelemetry, with the real SDK: one trace from the request to the run, and what retries and takeovers link to."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from fastapi import FastAPI
from httpx2 import ASGITransport, AsyncClient
from opentelemetry import trace
from opentelemetry.trace import StatusCode
from starlette.testclient import TestClient

from ostinato import Invalid, otel
from ostinato.config import Settings
from ostinato.core.trace import RESERVED, continues
from ostinato.otel import IncomingTrace
from ostinato.store import rows
from ostinato.wiring import build_api
from tests.app.conftest import during
from tests.app.test_transactions import open_connection
from tests.build import NOW, a_live
from tests.observe import traced
from tests.observe.conftest import run
from tests.rest.conftest import NoEngine
from tests.waiting import PATIENCE, until

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE = int(GIVEN.split("-")[1], 16)


@pytest.fixture
def app(app, spans):
    app.configure(otel=True)
    return app


def parent_of(span) -> int | None:
    return None if span.parent is None else span.parent.span_id


def linked(span) -> list[int]:
    return [link.context.span_id for link in span.links]


def written(span) -> str:
    context = span.context
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def metadata_of(app, handle) -> dict:
    return json.loads(app.jobs.get(handle.id).definition.metadata)


# -- one trace


@pytest.mark.parametrize("task", traced.ISOLATIONS)
def test_a_run_is_a_child_of_its_enqueue_and_its_task_runs_within_the_span(app, spans, task):
    ended = run(app, task)
    sent, attempt = spans.one("PRODUCER"), spans.one("CONSUMER")
    assert (sent.name, attempt.name) == (f"enqueue {task}", f"run {task}")
    assert parent_of(attempt) == sent.context.span_id
    assert attempt.context.trace_id == sent.context.trace_id
    assert ended.result["current"] == ended.result["own"] == written(attempt)
    assert ended.traceparent == written(attempt), "the execution keeps it"
    assert (ended.result["pid"] == os.getpid()) is (task in ("on_loop", "on_thread"))
    told = attempt.attributes
    assert told["messaging.system"] == "ostinato"
    assert told["messaging.operation.type"] == "process"
    assert told["messaging.destination.name"] == "default"
    assert told["messaging.message.id"] == sent.attributes["messaging.message.id"] == str(ended.job_id)
    assert (told["ostinato.attempt"], told["ostinato.outcome"]) == (0, "completed")


@pytest.mark.parametrize("task", traced.ISOLATIONS)
def test_a_retry_has_a_trace_of_its_own_with_a_link_to_the_enqueue(app, spans, task):
    run(app, task, retries=1, fail=1)
    sent, (first, again) = spans.one("PRODUCER"), spans.of("CONSUMER")
    assert parent_of(first) == sent.context.span_id
    assert (again.parent, linked(again)) == (None, [sent.context.span_id])
    assert again.context.trace_id != sent.context.trace_id
    assert (first.attributes["ostinato.outcome"], again.attributes["ostinato.outcome"]) == ("failed", "completed")
    assert (first.status.status_code, first.attributes["error.type"]) == (StatusCode.ERROR, "builtins.KeyError")
    (event,) = first.events
    assert event.attributes["exception.message"] == "'no order 0'"
    assert "in broken" in event.attributes["exception.stacktrace"]


@pytest.mark.parametrize(
    ("attempt", "number", "minutes", "expected"),
    [(0, 1, 0, True), (0, 1, 10, True), (0, 1, 11, False), (1, 1, 0, False), (0, 2, 0, False)],
)
def test_only_the_first_attempt_within_ten_minutes_continues_the_trace(attempt, number, minutes, expected):
    live = a_live(running=True, attempt=attempt, number=number)  # the id of its job holds the instant of its creation
    assert continues(replace(live, started_at=NOW + timedelta(minutes=minutes))) is expected


def test_a_request_to_fastapi_its_enqueue_and_its_run_are_one_trace(app, spans):
    web = FastAPI()  # it traces its requests by itself

    @web.post("/orders")
    async def order() -> str:
        return str((await app.registry.get("on_thread").aenqueue()).id)

    async def body() -> None:
        async with AsyncClient(transport=ASGITransport(web), base_url="http://web") as client:
            answer = await client.post("/orders", headers={"traceparent": GIVEN})
        await app.handle(UUID(answer.json())).await_()

    during(app, body)
    assert parent_of(spans.one("CONSUMER")) == spans.one("PRODUCER").context.span_id
    assert {span.kind.name for span in spans.all()} >= {"SERVER", "PRODUCER", "CONSUMER"}
    assert {span.context.trace_id for span in spans.all()} == {TRACE}


@pytest.mark.parametrize(("given", "expected"), [(GIVEN, TRACE), ("nonsense", 0), (None, 0)])
def test_a_request_that_nothing_else_traces_continues_its_trace(given, expected):
    found = list[int]()

    async def api(scope, receive, send) -> None:
        found.append(trace.get_current_span().get_span_context().trace_id)

    async def nothing(*_: object) -> None: ...

    headers = [] if given is None else [(b"traceparent", given.encode())]
    asyncio.run(IncomingTrace(api)({"type": "http", "headers": headers}, nothing, nothing))
    assert found == [expected]


def rest(app) -> TestClient:
    return TestClient(build_api(app.parts, app.scheduler, NoEngine()), base_url="http://localhost")


def post(app, traceparent: str):
    """Create a job that runs now, with a header."""
    app.open(upgrade=True)
    told = {"task": "on_thread", "schedule": "now"}
    return rest(app).post("/api/v1/jobs", json=told, headers={"traceparent": traceparent})


def test_our_rest_api_continues_the_trace_of_a_request(app, spans):
    answer = post(app, GIVEN)
    assert answer.status_code == 201, answer.text
    assert answer.json()["metadata"] == {}

    async def body():
        return await app.handle(app.jobs.list(all_apps=True)[0].id).await_()

    ended = during(app, body)
    assert (spans.one("PRODUCER").context.trace_id, spans.one("CONSUMER").context.trace_id) == (TRACE, TRACE)
    shown = rest(app).get(f"/api/v1/executions/{ended.id}").json()
    assert shown["traceparent"] == ended.traceparent == written(spans.one("CONSUMER"))


WRONG = ["", "nonsense", GIVEN + "x", "ff" + GIVEN[2:], f"{GIVEN[:36]}{'0' * 16}-01"]


@pytest.mark.parametrize("given", WRONG)
def test_a_wrong_traceparent_of_a_request_begins_a_trace(app, spans, given):
    answer = post(app, given)
    assert answer.status_code == 201, answer.text
    assert spans.one("PRODUCER").context.trace_id not in (0, TRACE)


# -- enqueues


def test_a_bulk_enqueue_is_one_span_and_its_runs_are_children(app, spans):
    async def body() -> None:
        task = app.registry.get("on_loop")
        handles = await asyncio.to_thread(app.enqueue, [task.bind() for _ in range(5)])
        for handle in handles:
            await handle.await_()

    during(app, body)
    sent = spans.one("PRODUCER")
    assert sent.attributes["messaging.batch.message_count"] == 5
    assert [parent_of(span) for span in spans.of("CONSUMER")] == [sent.context.span_id] * 5


def test_calls_of_several_tasks_are_one_span_without_a_task(app, spans):
    app.open(upgrade=True)
    app.enqueue([app.registry.get(task).bind() for task in ("on_loop", "on_thread")])
    assert spans.one("PRODUCER").name == "enqueue"


@pytest.mark.parametrize("commit", [True, False])
def test_the_trace_goes_with_the_transaction_of_the_caller(app, spans, database_url, commit):
    app.open(upgrade=True)
    with open_connection(database_url, "driver") as connection:
        handle = app.registry.get("on_loop").using(connection=connection).enqueue()
        connection.commit() if commit else connection.rollback()
    sent = spans.one("PRODUCER")
    if commit:
        assert metadata_of(app, handle) == {RESERVED: written(sent)}
    else:
        assert app.jobs.list() == []


def test_a_schedule_carries_no_trace_and_each_of_its_runs_begins_one(app, spans):
    app.schedule(app.registry.get("on_loop"), every="1h", first_run="now", key="hourly")

    async def body() -> None:
        await until(lambda: spans.of("CONSUMER"))

    during(app, body)
    attempt = spans.one("CONSUMER")
    assert (spans.of("PRODUCER"), attempt.parent, attempt.links) == ([], None, ())
    assert attempt.attributes["ostinato.job.key"] == "hourly"


# -- ends


@pytest.mark.parametrize(
    ("task", "outcome", "error"),
    [
        ("gives_up", "failed", "GiveUp"),
        ("dies_in_process", "failed", "Killed"),
        ("hangs", "timed_out", "timed_out"),
    ],
)
def test_a_run_without_a_result_has_an_error_and_its_span_ends(app, spans, task, outcome, error):
    run(app, task, timeout="500ms" if task == "hangs" else None)
    attempt = spans.one("CONSUMER")
    assert (attempt.attributes["ostinato.outcome"], attempt.attributes["error.type"]) == (outcome, error)
    assert attempt.status.status_code is StatusCode.ERROR


def test_a_run_that_is_put_off_has_no_error_and_its_next_start_is_a_child_too(app, spans):
    run(app, "puts_off")
    first, again = spans.of("CONSUMER")
    assert [each.attributes["ostinato.outcome"] for each in (first, again)] == ["deferred", "completed"]
    assert (first.status.status_code, parent_of(again)) == (StatusCode.UNSET, spans.one("PRODUCER").context.span_id)


def test_the_run_that_takes_over_from_a_killed_worker_links_to_the_enqueue(app, spans, database_url, tmp_path: Path):
    app.open(upgrade=True)
    handle = app.registry.get("kills_its_worker").using(backoff="10ms").enqueue()
    short = {"database_url": database_url, "otel": True, "lease": "1s", "sweep": "200ms"}
    program = [sys.executable, "-m", "tests.observe.traced", json.dumps(short)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    app.close()
    app.configure(sweep="200ms")

    async def body():
        return await handle.await_()

    ended = during(app, body)
    assert ended.result == 1
    sent, again = spans.one("PRODUCER"), spans.one("CONSUMER")
    assert (again.parent, linked(again)) == (None, [sent.context.span_id])


class Broken:
    """A tracer whose SDK raises."""

    def start_span(self, *_: object, **__: object) -> object:
        raise OSError("no more spans")


def test_an_error_of_the_sdk_costs_the_span_and_not_the_run(app, spans, monkeypatch, caplog):
    app.open(upgrade=True)
    handle = app.registry.get("on_thread").enqueue()
    monkeypatch.setattr(otel, "_TRACER", Broken())

    async def body():
        return await handle.await_()

    ended = during(app, body)
    assert (ended.status, ended.traceparent, ended.result["current"]) == ("completed", None, None)
    assert "OpenTelemetry failed; the span of a run is lost" in caplog.text


# -- metadata from outside


@pytest.mark.parametrize("word", ["x", 7, None, {"a": []}, GIVEN])
def test_the_reserved_name_is_refused_in_metadata_from_outside(app, spans, word):
    app.open(upgrade=True)
    body = {"task": "on_thread", "schedule": "now", "metadata": {RESERVED: word}}
    answer = rest(app).post("/api/v1/jobs", json=body)
    assert (answer.status_code, "metadata cannot have the name _trace" in answer.text) == (422, True)
    with pytest.raises(Invalid, match="metadata cannot have the name _trace"):
        app.registry.get("on_thread").using(metadata={RESERVED: word}).enqueue()


@pytest.mark.parametrize("word", ["x", 7, None, {"a": []}, "0" * 100_000, GIVEN + "-x", "☂" * 10])
def test_a_damaged_trace_in_the_database_harms_no_run(app, spans, database_url, word):
    app.open(upgrade=True)
    handle = app.registry.get("on_thread").enqueue()
    with app.parts.store.database.write() as tx:
        tx.run("update_definition", id=handle.id, **_row(app, handle, json.dumps({RESERVED: word})))

    async def body():
        return await handle.await_()

    assert during(app, body).status == "completed"
    assert spans.one("CONSUMER").parent is None


def _row(app, handle, metadata: str) -> dict:
    return rows.written(replace(app.jobs.get(handle.id).definition, metadata=metadata))


def test_the_trace_is_hidden_and_stays_when_the_job_is_edited(app, spans):
    app.open(upgrade=True)
    handle = app.registry.get("on_thread").using(metadata={"order": 7}).enqueue_in("1h")
    api = rest(app)
    assert api.get(f"/api/v1/jobs/{handle.id}").json()["metadata"] == {"order": 7}
    assert api.patch(f"/api/v1/jobs/{handle.id}", json={"metadata": {"order": 8}}).status_code == 200
    assert metadata_of(app, handle) == {"order": 8, RESERVED: written(spans.one("PRODUCER"))}
    assert app.jobs.get(handle.id).metadata == {"order": 8}
    for page in (f"/jobs/{handle.id}", f"/jobs/{handle.id}/edit"):
        shown = api.get(page, headers={"accept": "text/html"})
        assert (shown.status_code, written(spans.one("PRODUCER")) in shown.text) == (200, False)


# -- metrics, and the link


def test_runs_are_measured(app, measured):
    run(app, "on_thread", retries=1, fail=1)
    durations = measured("messaging.process.duration")
    assert {point.attributes.get("error.type") for point in durations} == {None, "failed"}
    assert all(point.attributes["ostinato.task"] == "on_thread" for point in durations)


def test_the_wait_in_the_queue_is_measured(app, measured):
    run(app, "on_loop")
    (wait,) = measured("ostinato.queue.waiting")
    assert (wait.count, wait.attributes["messaging.destination.name"]) == (1, "default")


def test_the_page_of_a_run_links_its_trace(app, spans):
    app.configure(trace_url="https://traces.example/t/{trace_id}?span={span_id}")
    ended = run(app, "on_loop")
    _, trace_id, span_id, _ = ended.traceparent.split("-")
    page = rest(app).get(f"/executions/{ended.id}", headers={"accept": "text/html"}).text
    assert f'href="https://traces.example/t/{trace_id}?span={span_id}"' in page


@pytest.mark.parametrize(
    "url", ["https://traces.example", "ftp://t/{trace_id}", "javascript:{trace_id}", "https://t/{trace_id}/{x}"]
)
def test_a_wrong_trace_url_is_told(url):
    with pytest.raises(Invalid, match="trace_url cannot be"):
        Settings(trace_url=url)
