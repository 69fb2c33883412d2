"""Health: the process, and what it needs; on both databases."""

import asyncio
import threading

from fastapi import FastAPI
from fastapi.testclient import TestClient

from ostinato.core.errors import StoreUnavailable
from ostinato.rest import monitoring
from ostinato.wiring import build_api
from tests.rest.conftest import NoEngine
from tests.waiting import PATIENCE, until


class Stuck(NoEngine):
    def troubles(self) -> list[str]:
        return ["The dispatcher does not step."]


def ask(app, path: str, engine=None):
    return TestClient(build_api(app.parts, app.scheduler, engine or NoEngine())).get(path)


def test_a_process_that_can_work_is_ready(app):
    answer = ask(app, "/readyz")
    assert (answer.status_code, answer.json()) == (200, {"ready": True, "reasons": []})
    assert ask(app, "/healthz").json() == {"status": "ok"}


def test_a_dispatcher_that_does_not_step_is_a_reason(app):
    answer = ask(app, "/readyz", Stuck())
    assert (answer.status_code, answer.json()["reasons"]) == (503, ["The dispatcher does not step."])
    assert ask(app, "/healthz", Stuck()).status_code == 200


def test_a_schema_that_somebody_has_upgraded_is_a_reason(app):
    statement = app.parts.store.database.dialect.statement("UPDATE {meta} SET value = '999' WHERE key = 'version:core'")
    with app.parts.store.database.write() as tx:
        tx.run(statement)
    answer = ask(app, "/readyz")
    assert answer.status_code == 503
    assert "schema" in answer.json()["reasons"][0]


def test_a_database_that_is_away_is_a_reason(app, monkeypatch):
    def away():
        raise StoreUnavailable("postgresql://ann:s3cret@db is away")

    monkeypatch.setattr(app.scheduler, "unready", away)
    answer = ask(app, "/readyz")
    assert (answer.status_code, answer.json()["reasons"]) == (503, ["The database does not answer."])


def test_a_database_that_hangs_is_asked_once_at_a_time(monkeypatch):
    monkeypatch.setattr(monitoring, "ANSWER_WITHIN", 0.05)
    asked, answers = [], threading.Event()

    def check() -> list[str]:
        asked.append(1)
        assert answers.wait(PATIENCE)
        return []

    async def story() -> None:
        readiness = monitoring.Readiness(check)

        async def ready() -> bool:
            return not await readiness.reasons()

        try:
            for _ in range(3):
                assert await readiness.reasons() == ["The database has not answered within 0.05 s."]
        finally:
            answers.set()
        assert len(asked) == 1
        monkeypatch.setattr(monitoring, "ANSWER_WITHIN", 60.0)
        await until(ready)

    asyncio.run(asyncio.wait_for(story(), PATIENCE))


def test_readiness_is_asked_anew_each_time():
    troubles = [["late"], []]
    app = FastAPI()
    app.include_router(monitoring.health_router(lambda: troubles.pop(0)))
    client = TestClient(app)
    assert [client.get("/readyz").status_code for _ in range(2)] == [503, 200]


def test_an_engine_is_in_trouble_when_nothing_has_come_due_for_long(app):
    async def story() -> None:
        engine = app.engine()
        assert engine.troubles() == []
        engine.dispatcher.idle_for = lambda: 3 * 5 + 15 + 0.1  # three polls, and some patience
        assert engine.troubles() == ["Nothing has come due here for 30 s: the dispatcher does not step."]

    asyncio.run(story())
