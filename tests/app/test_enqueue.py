"""All ways to enqueue, and to wait for the result."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from ostinato import Context, GiveUp, RunFailed
from ostinato.core.errors import Conflict, NotFound
from ostinato.core.model import Status
from ostinato.core.schedule import Once
from tests.app.conftest import during
from tests.waiting import PATIENCE


def test_a_plain_call_stays_a_plain_call(app):
    @app.task
    def add(a: int, b: int = 1) -> int:
        return a + b

    @app.task
    async def send(ctx: Context, to: str) -> str:
        ctx.log.info("sending", to=to)
        ctx.progress(1, of=2)
        return f"{ctx.task} to {to}"

    assert add(2, b=3) == 5
    assert asyncio.run(send("a@example.org")) == "send to a@example.org"
    assert app.jobs.list() == []


def test_enqueue_runs_once_and_the_handle_has_the_result(app):
    @app.task
    async def send(ctx: Context, to: str) -> dict:
        return {"to": to, "attempt": ctx.attempt, "key": ctx.occurrence_key, "own": ctx.execution_key}

    async def body():
        handle = send.enqueue(to="a@example.org")
        ended = await handle.await_()
        assert (ended.status, ended.number, ended.attempt) == ("completed", 1, 0)
        key = f"sched-{handle.id}-n1"
        assert ended.result == {"to": "a@example.org", "attempt": 0, "key": key, "own": f"{key}-rc0"}
        assert ended.key == f"{key}-rc0"
        assert handle.status is Status.COMPLETED
        assert handle.result() == ended.result

    during(app, body)


def test_aenqueue_does_the_same_for_async_code(app):
    @app.task
    def double(n: int) -> int:
        return 2 * n

    async def body():
        handle = await double.aenqueue(21)
        return (await handle.await_()).result

    assert during(app, body) == 42


def test_a_plain_enqueue_is_not_retried_and_its_result_is_an_error(app):
    @app.task
    def fail() -> None:
        raise ValueError("no such customer")

    async def body():
        handle = fail.enqueue()
        ended = await handle.await_()
        assert (ended.status, ended.outcome, ended.error_kind) == ("failed", "failed", "ValueError")
        assert ended.error == "no such customer"
        assert "ValueError: no such customer" in ended.traceback
        with pytest.raises(RunFailed, match="fail failed: no such customer") as caught:
            handle.result()
        assert caught.value.execution == ended
        assert handle.status is Status.FAILED

    during(app, body)


def test_using_retries_waits_for_the_last_attempt(app):
    @app.task
    def second_time(ctx: Context) -> int:
        if ctx.attempt == 0:
            raise ConnectionError("busy")
        return ctx.attempt

    async def body():
        handle = second_time.using(retries=2, backoff="0s").enqueue()
        assert (await handle.await_()).result == 1
        attempts = app.executions.list(job=handle.id)
        assert [(each.attempt, each.status) for each in attempts] == [(1, "completed"), (0, "failed")]

    during(app, body)


def test_a_task_that_gives_up_is_not_tried_again(app):
    @app.task(retries=5, backoff="0s")
    def hopeless() -> None:
        raise GiveUp("the customer is gone")

    async def body():
        handle = hopeless.enqueue()
        assert (await handle.await_()).error == "the customer is gone"
        assert len(app.executions.list(job=handle.id)) == 1

    during(app, body)


def test_enqueue_in_and_at_name_a_time_and_start_no_earlier(app):
    @app.task
    def work() -> None: ...

    before = app.now()
    later = work.enqueue_in("10m")
    at = datetime(2099, 1, 1, 12, tzinfo=UTC)
    much_later = work.enqueue_at(at)
    due = later.job.definition.schedule.at
    assert before + timedelta(minutes=10) <= due <= app.now() + timedelta(minutes=10)
    assert much_later.job.definition.schedule == Once(at)
    assert [later.status, much_later.status] == [Status.SCHEDULED, Status.SCHEDULED]
    assert much_later.job.next_run_at == at


def test_a_time_that_has_passed_means_now(app):
    @app.task
    def work() -> str:
        return "done"

    async def body():
        return (await work.enqueue_at(datetime(2020, 1, 1, tzinfo=UTC)).await_()).result

    assert during(app, body) == "done"


def test_a_short_delay_is_kept_to_without_polling(new_app):
    app = new_app(poll_interval="60s")

    @app.task
    def work(ctx: Context) -> None: ...

    async def body():
        handle = work.enqueue_in(0.3)
        ended = await handle.await_()
        assert ended.due_at == handle.job.definition.schedule.at
        assert timedelta(0) <= ended.started_at - ended.due_at < timedelta(seconds=5)

    during(app, body)


def test_many_at_once_are_all_or_none(app):
    @app.task
    def square(n: int) -> int:
        return n * n

    async def body():
        handles = app.enqueue([square.bind(n=n) for n in range(20)])
        assert len({handle.id for handle in handles}) == 20
        return [(await handle.await_()).result for handle in handles]

    assert during(app, body) == [n * n for n in range(20)]


def test_one_that_is_refused_refuses_all(app):
    @app.task
    def work() -> None: ...

    with pytest.raises(ValueError, match="knows a task 'wrok'"):
        app.enqueue([work.bind(), app.call("wrok")])
    assert app.jobs.list() == []


def test_a_second_enqueue_with_a_key_returns_the_first(app):
    @app.task
    def welcome(to: str) -> str:
        return to

    first = welcome.using(key="welcome-7").enqueue(to="a")
    second = welcome.using(key="welcome-7").enqueue(to="b")
    assert first.id == second.id
    assert app.jobs.get("welcome-7").args == {"to": "a"}

    async def body():
        return (await first.await_()).result

    assert during(app, body) == "a"
    third = welcome.using(key="welcome-7").enqueue(to="c")
    assert third.id != first.id, "the key of a job that has ended is free"
    assert app.jobs.get("welcome-7").id == third.id


def test_using_says_how(app):
    @app.task(queue="mail", priority=7, retries=1, timeout="1m")
    def send(to: str) -> None: ...

    plain, other = (
        send.enqueue("a").job.definition,
        send.using(priority=1, tags=["vip"]).enqueue("a").job.definition,
    )
    assert (plain.queue, plain.priority, plain.policies.max_retries) == ("mail", 7, 1)
    assert plain.policies.timeout == timedelta(minutes=1)
    assert (other.queue, other.priority, other.tags) == ("mail", 1, ("vip",))


def test_a_wait_that_takes_too_long_says_so(app):
    @app.task
    def work() -> None: ...

    handle = work.enqueue()
    with pytest.raises(TimeoutError, match=f"The job {handle.id} is still pending after 0s.*No worker"):
        handle.wait("0s")


def test_a_job_that_is_cancelled_has_ended(app):
    @app.task
    def work() -> None: ...

    queued, later = work.enqueue(), work.enqueue_in("1h")
    queued.cancel(by="ops")
    later.cancel()
    assert queued.wait(PATIENCE).status == "cancelled"
    with pytest.raises(Conflict, match="was cancelled before it ran"):
        later.wait(PATIENCE)


def test_a_handle_can_be_had_from_an_id_and_a_strange_one_is_not_found(app):
    @app.task
    def work() -> None: ...

    handle = work.enqueue()
    assert app.handle(handle.id).status is Status.PENDING
    app.jobs.delete(handle.id)
    with pytest.raises(NotFound):
        app.handle(handle.id).wait(PATIENCE)


def test_a_task_is_registered_by_name_at_run_time(new_app):
    def send(payload, job):
        return {"payload": payload, "task": job.task}

    app = new_app(tasks={"sendMail": send})
    app.register("sendEmail", send)

    async def body():
        handles = app.enqueue([app.call("sendMail", to="a"), app.call("sendEmail", to="b")])
        return [(await handle.await_()).result for handle in handles]

    assert during(app, body) == [
        {"payload": {"to": "a"}, "task": "sendMail"},
        {"payload": {"to": "b"}, "task": "sendEmail"},
    ]


def test_two_tasks_of_one_name_are_refused(app):
    @app.task
    def work() -> None: ...

    with pytest.raises(ValueError, match="There is already a task named 'work'"):

        @app.task(name="work")
        def other() -> None: ...
