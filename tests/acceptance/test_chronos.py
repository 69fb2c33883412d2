"""CHRONOS: handlers by name, picked by exactly one worker, retried, rescheduled, recovered.

Its words and ours: a handler is a task, `nextRunAt` is `next_run_at`, a lock is a lease (30 s, renewed, instead of
a lock of 5 minutes), its payload is our args. Its MongoDB is left out on purpose.
"""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from ostinato import Ostinato
from ostinato.config import Settings
from ostinato.core.model import Status
from tests.app.conftest import NewApp, during
from tests.app.test_hooks import Told
from tests.waiting import PATIENCE

SECOND = timedelta(seconds=1)


def test_the_defaults_are_those_of_its_configuration_table():
    settings = Settings()
    assert (settings.poll_interval, settings.concurrency) == (5 * SECOND, 5)


def test_a_handler_registered_by_name_gets_the_payload_and_the_job(app: Ostinato):
    seen: list[Any] = []

    async def send_email(payload, job):
        seen.append((payload, job.job_id))
        return {"sent": True}

    app.register("sendEmail", send_email)

    async def body():
        (handle,) = app.enqueue([app.call("sendEmail", to="a@example.org", subject="Hello")])
        ended = await handle.await_()
        assert ended.result == {"sent": True}
        assert seen == [({"to": "a@example.org", "subject": "Hello"}, handle.id)]

    during(app, body)


def test_handlers_can_be_given_when_the_scheduler_is_made(new_app: NewApp):
    app = new_app(tasks={"greet": lambda name: f"Hello {name}"})

    async def body():
        (handle,) = app.enqueue([app.call("greet", name="Ada")])
        assert (await handle.await_()).result == "Hello Ada"

    during(app, body)


def test_many_workers_on_one_database_pick_each_job_exactly_once(new_app: NewApp):
    runs: Counter[int] = Counter()
    apps = [new_app(tasks={"count": lambda n: runs.update([n])}) for _ in range(4)]

    async def body():
        handles = apps[0].enqueue([apps[0].call("count", n=n) for n in range(200)])
        for handle in handles:
            await handle.await_(PATIENCE)

    async def main():
        async with apps[0].running(), apps[1].running(), apps[2].running(), apps[3].running():
            await asyncio.wait_for(body(), PATIENCE)

    asyncio.run(main())
    assert runs == Counter(range(200))


def test_the_highest_priority_goes_first_then_the_oldest(new_app: NewApp):
    app = new_app(concurrency=1)
    order: list[str] = []

    @app.task
    async def note(name: str) -> None:
        order.append(name)

    for name, priority in (("late", 9), ("first", 1), ("usual", 5), ("second", 1)):
        note.using(priority=priority).enqueue(name)

    async def body():
        last = app.jobs.list(limit=4)
        for view in last:
            await app.handle(view.id).await_()

    during(app, body)
    assert order == ["first", "second", "usual", "late"]


def test_no_more_run_at_once_than_the_concurrency_allows(new_app: NewApp):
    app = new_app(concurrency=3)
    now = most = 0

    @app.task
    async def busy() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.to_thread(lambda: None)
        now -= 1

    async def body():
        for handle in app.enqueue([busy.bind() for _ in range(30)]):
            await handle.await_(PATIENCE)

    during(app, body)
    assert 1 <= most <= 3


def test_a_failure_is_retried_with_exponential_backoff_and_then_given_up(app: Ostinato):
    @app.task(retries=2, backoff="10ms")
    async def fails() -> None:
        raise RuntimeError("no")

    async def body():
        told = Told(app, "job:failed", "job:retry")
        handle = fails.enqueue()
        ended = await handle.await_(PATIENCE)
        assert (ended.attempt, ended.status, ended.error) == (2, "failed", "no")
        waits = [e["retry_in"] for e in await told.wait_for(5) if e["event"] == "job:retry"]
        assert waits == [pytest.approx(0.01, abs=0.005), pytest.approx(0.02, abs=0.005)]
        assert handle.status is Status.FAILED

    during(app, body)


def test_a_handler_that_takes_longer_than_its_timeout_has_failed(app: Ostinato):
    @app.task(timeout="50ms")
    async def hangs() -> None:
        await asyncio.Event().wait()

    async def body():
        ended = await hangs.enqueue().await_(PATIENCE)
        assert (ended.status, ended.outcome) == ("failed", "timed_out")

    during(app, body)


def test_a_recurring_job_is_rescheduled_after_success_and_after_failure(app: Ostinato):
    runs: list[int] = []

    @app.task(every="1s", first_run="now", retries=0)
    async def tick() -> None:
        runs.append(len(runs))
        if len(runs) == 1:
            raise RuntimeError("the first one fails")

    async def body():
        told = Told(app, "job:failed", "job:complete")
        kinds = [event["event"] for event in await told.wait_for(3)]
        assert kinds[:3] == ["job:failed", "job:complete", "job:complete"]
        job = app.jobs.get("tick")
        assert job.next_run_at is not None or job.status is Status.RUNNING

    during(app, body)
    numbers = [(e.number, e.attempt) for e in app.executions.list(job="tick")]
    assert numbers == sorted(set(numbers), reverse=True), "each due time once"


def test_events_tell_start_completion_and_failure(app: Ostinato):
    @app.task
    async def works() -> dict[str, bool]:
        return {"ok": True}

    @app.task
    async def breaks() -> None:
        raise ValueError("broken")

    async def body():
        told = Told(app, "job:start", "job:complete", "job:failed")
        good, bad = works.enqueue(), None
        await good.await_()
        bad = breaks.enqueue()
        await bad.await_()
        events = await told.wait_for(4)
        assert [(e["event"], e["job_id"]) for e in events] == [
            ("job:start", str(good.id)),
            ("job:complete", str(good.id)),
            ("job:start", str(bad.id)),
            ("job:failed", str(bad.id)),
        ]
        assert (events[0]["task"], events[1]["result"]) == ("works", {"ok": True})
        assert events[1]["duration"] >= 0
        assert "broken" in events[3]["error"]

    during(app, body)


def test_the_life_of_a_job_as_its_states_show_it(app: Ostinato):
    entered, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def waits() -> None:
        entered.set()
        await go.wait()

    later = waits.enqueue_in("1h")
    now = waits.enqueue()
    assert (later.status, now.status) == (Status.SCHEDULED, Status.PENDING)

    async def body():
        await entered.wait()
        assert now.status is Status.RUNNING
        go.set()
        await now.await_()
        assert now.status is Status.COMPLETED

    during(app, body)


def test_a_stop_in_order_loses_nothing_and_spends_no_attempt(new_app: NewApp):
    app = new_app(shutdown_grace="0s")
    started = asyncio.Event()

    @app.task
    async def hangs() -> None:
        started.set()
        await asyncio.Event().wait()

    handle = hangs.enqueue()
    during(app, started.wait)
    (execution,) = app.executions.list(job=handle.id)
    assert (execution.status, execution.attempt) == ("queued", 0)
