"""The query that decides how many workers run, on a real PostgreSQL: executions that wait for all sorts of things."""

import asyncio
import threading
from collections import Counter

import psycopg
import pytest

from ostinato import Ostinato
from tests.deploy.recipes import documents
from tests.waiting import until

pytestmark = pytest.mark.postgres


def a_shop(url: str, gate: threading.Event) -> Ostinato:
    """An app with two places for runs; its tasks end when the gate opens."""
    app = Ostinato("shop", database_url=url, concurrency=2)

    @app.task
    def waits() -> None:
        gate.wait(60)

    @app.task(max_concurrency=1)
    def one_at_once() -> None:
        gate.wait(60)

    @app.task(retries=1, backoff="1h")
    def fails() -> None:
        raise ValueError("no")

    return app


def asked(url: str) -> float:
    """Return the answer that KEDA gets: one number."""
    _, scaled = documents("keda.yaml")
    (trigger,) = scaled["spec"]["triggers"]
    with psycopg.connect(url) as connection:
        ((number,),) = connection.execute(trigger["metadata"]["query"]).fetchall()
    return number


def present(url: str) -> Counter[str]:
    """Count the executions by what they wait for."""
    what = "coalesce(waits_for, CASE WHEN worker_id IS NULL THEN 'nothing' ELSE 'running' END)"
    with psycopg.connect(url) as connection:
        return Counter(reason for (reason,) in connection.execute(f"SELECT {what} FROM ostinato.live"))


def test_without_workers_it_counts_what_waits_for_one(postgres_url):
    app = a_shop(postgres_url, threading.Event())
    assert asked(postgres_url) == 0
    call = app.call("waits")
    paused, *_ = app.enqueue([call] * 4)
    assert asked(postgres_url) == 4
    app.jobs.pause(paused.id)
    assert asked(postgres_url) == 3
    app.scheduler.pause_queue("default")
    assert asked(postgres_url) == 0
    app.scheduler.resume_queue("default")
    assert asked(postgres_url) == 3
    app.registry.get("waits").enqueue_in("1h")
    app.schedule(call, every="1h", key="hourly")
    app.apply_declarations()
    assert asked(postgres_url) == 3
    app.close()


def test_with_workers_it_counts_what_runs_and_what_could_run(postgres_url):
    gate = threading.Event()
    app = a_shop(postgres_url, gate)
    asyncio.run(_with_a_worker(app, postgres_url, gate))
    assert asked(postgres_url) == 0
    app.close()


async def _with_a_worker(app: Ostinato, url: str, gate: threading.Event) -> None:
    async with app.running():
        try:
            in_thread = asyncio.to_thread
            await in_thread(app.enqueue, [app.call("fails")])
            await until(lambda: present(url) == {"time": 1})
            assert asked(url) == 0
            await in_thread(enqueue_for_others, url)
            await until(lambda: present(url) == {"time": 1, "task": 1})
            assert asked(url) == 0
            await in_thread(app.enqueue, [app.call("one_at_once")] * 3)
            await until(lambda: present(url)["running"] == 1)
            assert (present(url)["limit"], asked(url)) == (2, 1)
            await in_thread(app.enqueue, [app.call("waits")] * 4)
            await until(lambda: present(url)["running"] == 2)
            assert (present(url)["nothing"], asked(url)) == (3, 5)
        finally:
            gate.set()
        await until(lambda: present(url) == {"time": 1, "task": 1})


def enqueue_for_others(url: str) -> None:
    """Enqueue a task that the worker of this test does not have."""
    other = Ostinato("shop", database_url=url)
    other.register("stranger", lambda: None)
    other.enqueue([other.call("stranger")])
    other.close()
