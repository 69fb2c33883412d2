"""What Prometheus is told: by a process that works, by one that does not, and without the database."""

import asyncio
import re
from uuid import uuid4

from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from ostinato import Ostinato
from ostinato.core.errors import StoreUnavailable
from ostinato.wiring import build_api
from tests.docs.pages import ROOT
from tests.rest.conftest import NoEngine
from tests.waiting import until


class Scrape:
    """One answer of /metrics."""

    def __init__(self, client: TestClient) -> None:
        self.answer = client.get("/metrics", headers={"Host": "127.0.0.1"})
        families = text_string_to_metric_families(self.answer.text)
        self.samples = {
            (sample.name, tuple(sorted(sample.labels.values()))): sample.value
            for family in families
            for sample in family.samples
        }

    def of(self, name: str, *labels: str) -> float | None:
        return self.samples.get((name, tuple(sorted(labels))))


def scraped(app: Ostinato, engine) -> Scrape:
    return Scrape(TestClient(build_api(app.parts, app.scheduler, engine)))


def test_a_process_that_works_tells_what_it_did(new_app):
    app = new_app()

    @app.task
    def work() -> None: ...

    @app.task(retries=0)
    def fails() -> None:
        raise ValueError("no")

    def settled(client: TestClient) -> Scrape | None:
        found = Scrape(client)
        ended = [found.of("ostinato_executions_total", task, outcome) for task, outcome in EXPECTED]
        failed = found.of("ostinato_jobs", "failed")
        return found if (ended, failed) == (list(EXPECTED.values()), 1) and measured(found) else None

    async def story() -> Scrape:
        engine = app.engine()
        client = TestClient(build_api(app.parts, app.scheduler, engine))
        working = asyncio.create_task(engine.run())
        try:
            handles = await asyncio.to_thread(lambda: [work.enqueue(), work.enqueue(), fails.enqueue()])
            assert len(handles) == 3
            return await until(lambda: asyncio.to_thread(settled, client))
        finally:
            engine.stop()
            await working

    found = asyncio.run(story())
    assert found.of("ostinato_claims_total") == 3
    assert found.of("ostinato_execution_duration_seconds_count", "work") == 2
    assert found.of("ostinato_execution_lateness_seconds_count", "fails") == 1
    assert found.of("ostinato_execution_duration_seconds_bucket", "work", "+Inf") == 2
    assert found.of("ostinato_jobs", "completed") == 2
    assert found.of("ostinato_jobs", "failed") == 1
    assert found.of("ostinato_jobs", "running") == 0
    assert found.of("ostinato_workers") == 1
    assert found.of("ostinato_worker_slots") == 5
    assert found.of("ostinato_store_seconds_count") > 0
    assert found.of("ostinato_store_up") == 1


EXPECTED = {("work", "completed"): 2, ("fails", "failed"): 1}


def measured(found: Scrape) -> bool:
    """The engine tells of a settle after its commit."""
    return (found.of("ostinato_execution_duration_seconds_count", "work"),
            found.of("ostinato_execution_duration_seconds_count", "fails")) == (2, 1)  # fmt: skip


def test_what_the_database_knows_is_told_by_every_process(new_app):
    app, other = new_app(), new_app()
    app.scheduler.jobs.create([_definition(app)], allow_unknown=True)
    app.scheduler.pause_queue("default")
    found = scraped(other, NoEngine())
    assert found.of("ostinato_jobs", "scheduled") == 1
    assert found.of("ostinato_queue_paused", "default") == 1
    assert found.of("ostinato_queue_waiting", "default") == 0
    assert found.of("ostinato_claims_total") == 0


def _definition(app):
    from ostinato.options import define, schedule_from

    options = {"every": "1h"}
    return define(f"work-{uuid4()}", "{}", schedule_from(options, "UTC"), options, app.name, 3)


def test_without_the_database_the_rest_is_told(new_app, monkeypatch):
    app = new_app()

    def away():
        raise StoreUnavailable("away")

    monkeypatch.setattr(app.scheduler, "gauges", away)
    found = scraped(app, NoEngine())
    assert found.answer.status_code == 200
    assert found.of("ostinato_store_up") == 0
    assert found.of("ostinato_jobs", "scheduled") is None
    assert found.of("ostinato_claims_total") == 0


def test_both_formats_of_prometheus_are_spoken(new_app):
    app = new_app()
    client = TestClient(build_api(app.parts, app.scheduler, NoEngine()), base_url="http://127.0.0.1")
    plain = client.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    assert "# TYPE ostinato_executions_total counter" in plain.text
    openmetrics = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
    assert openmetrics.text.endswith("# EOF\n")
    for odd in (
        "application/openmetrics-text; version=x",
        "text/plain;version=1.0.0;escaping=zz",
        ";;;",
        "",
        "é",
    ):
        assert client.get("/metrics", headers={"Accept": odd.encode()}).status_code == 200


def test_every_metric_is_on_the_page_and_no_other(new_app):
    app = new_app()
    told = scraped(app, NoEngine()).answer.text
    names = {line.split()[2] for line in told.splitlines() if line.startswith("# TYPE ostinato_")}
    page = (ROOT / "docs" / "guides" / "monitoring.md").read_text().partition("## Alerts")[0]
    assert set(re.findall(r"`(ostinato_\w+)", page)) == names


def test_a_process_that_nobody_asks_measures_nothing(new_app):
    app = new_app()

    async def story() -> None:
        engine = app.engine()
        assert engine.worker._telemetry.run_times is None
        build_api(app.parts, app.scheduler, engine)
        assert engine.worker._telemetry.run_times is not None

    asyncio.run(story())
