"""Read by mypy, never run: the types of `app.aio` are those of the calls that it awaits. `test_typing.py` compares."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, assert_type

from ostinato import Handle, Ostinato
from ostinato.service import ExecutionView, JobView

app = Ostinato("shop")


@app.task
def send_email(to: str, copies: int = 1) -> None: ...


async def ask() -> None:
    assert_type(await app.aio.jobs.pause("report"), JobView)
    assert_type(await app.aio.jobs.pause("report", by="ann"), JobView)
    assert_type(await app.aio.executions.list(job="report", limit=3), list[ExecutionView])
    await app.aio.scheduler.pause_queue("mail", by="ann")
    await app.aio.scheduler.pause_queue(3)  # error: arg-type
    await app.aio.scheduler.keys.list()
    await app.aio.jobs.pause()  # error: call-arg
    await app.aio.jobs.pause("report", who="ann")  # error: call-arg
    await app.aio.jobs.pause(3)  # error: arg-type
    await app.aio.jobs.pouse("report")  # error: attr-defined
    app.aio.jobs.pause("report")  # error: unused-coroutine

    handle = await send_email.aenqueue_in("10m", "a@example.org")
    assert_type(handle, Handle)
    assert_type(await send_email.aenqueue_at(datetime.now(UTC), to="a@example.org"), Handle)
    assert_type(await app.aenqueue([send_email.bind("a@example.org")]), list[Handle])
    assert_type(await handle.await_("1m"), ExecutionView)
    assert_type(await handle.aresult(), Any)
    assert_type(await handle.acancel(), JobView)
    await send_email.aenqueue_in("10m", 3)  # error: arg-type
    assert_type(await app.aio.jobs.next_times("report"), Sequence[datetime])
