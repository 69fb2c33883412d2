"""Resources: opened once, shared, closed in reverse."""

import asyncio
import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from ostinato import Context, Invalid, Ostinato
from ostinato.task.open_resources import Resources
from ostinato.task.registry import Resource

said: list[str] = []
VARIABLE: ContextVar[str] = ContextVar("variable", default="nothing")


@pytest.fixture(autouse=True)
def forget() -> None:
    said.clear()


def a_resource(name: str, error: Exception | None = None) -> Resource[str]:
    def opened():
        said.append(f"open {name}")
        if error is not None:
            raise error
        yield name
        said.append(f"close {name}")

    return Resource(opened)


def an_async_resource(name: str) -> Resource[str]:
    async def opened():
        async with asyncio.TaskGroup() as group:  # it must be left by the task that entered it
            said.append(f"open {name}")
            await asyncio.sleep(0)
            yield name
            await group.create_task(asyncio.sleep(0))
            said.append(f"close {name}")

    return Resource(opened)


def test_it_is_opened_at_first_use_and_closed_in_reverse():
    resources, one, two = Resources(), a_resource("one"), a_resource("two")
    assert not resources
    assert [resources.use(each) for each in (one, two, one)] == ["one", "two", "one"]
    resources.close()
    assert said == ["open one", "open two", "close two", "close one"]
    assert not resources


def test_many_threads_open_it_once():
    resources, meeting = Resources(), threading.Barrier(8)
    one = a_resource("one")

    def use() -> str:
        meeting.wait()
        return resources.use(one)

    with ThreadPoolExecutor(8) as threads:
        assert {each.result() for each in [threads.submit(use) for _ in range(8)]} == {"one"}
    assert said == ["open one"]


def test_a_failed_opening_raises_and_the_next_use_tries_again():
    resources, broken = Resources(), a_resource("broken", ValueError("no route"))
    for _ in range(2):
        with pytest.raises(ValueError, match="no route"):
            resources.use(broken)
    assert said == ["open broken", "open broken"]
    assert not resources


def test_both_kinds_are_opened_once_and_closed_in_reverse():
    async def scene() -> None:
        resources, first, last, between = Resources(), an_async_resource("a"), an_async_resource("c"), a_resource("b")
        assert await asyncio.gather(*(resources.ause(first) for _ in range(3))) == ["a", "a", "a"]
        assert await resources.ause(between) == "b"
        assert await resources.ause(last) == "c"
        assert resources.on_loop
        await resources.aclose()

    asyncio.run(scene())
    assert said == ["open a", "open b", "open c", "close c", "close b", "close a"]


def test_a_cancelled_run_does_not_cancel_the_opening_for_others():
    gate: list[asyncio.Event] = []

    @Resource
    async def slow():
        said.append("open slow")
        await gate[0].wait()
        yield "slow"
        said.append("close slow")

    async def scene() -> None:
        gate.append(asyncio.Event())
        resources = Resources()
        runs = [asyncio.create_task(resources.ause(slow)) for _ in range(2)]
        await asyncio.sleep(0)
        runs[0].cancel()
        await asyncio.sleep(0)
        gate[0].set()
        assert await runs[1] == "slow"
        assert runs[0].cancelled()
        await resources.aclose()

    asyncio.run(scene())
    assert said == ["open slow", "close slow"]


def test_a_failed_async_opening_raises_in_each_run_and_the_next_use_tries_again():
    @Resource
    async def broken():
        said.append("open")
        await asyncio.sleep(0)
        raise ValueError("no route")
        yield

    async def scene() -> None:
        resources = Resources()
        for _ in range(2):
            found = await asyncio.gather(*(resources.ause(broken) for _ in range(2)), return_exceptions=True)
            assert [str(each) for each in found] == ["no route"] * 2
        assert not resources

    asyncio.run(scene())
    assert said == ["open", "open"]


def test_an_async_resource_does_not_keep_the_variables_of_the_run_that_opened_it():
    @Resource
    async def seen():
        yield VARIABLE.get()

    async def scene() -> str:
        VARIABLE.set("of a run")
        resources = Resources()
        try:
            return await resources.ause(seen)
        finally:
            await resources.aclose()

    assert asyncio.run(scene()) == "nothing"


@pytest.mark.parametrize("close", [Resources.close, lambda these: asyncio.run(these.aclose())])
def test_an_error_while_closing_is_logged_and_the_others_are_closed(caplog, close):
    @Resource
    def broken():
        yield
        raise ValueError("stuck")

    resources = Resources()
    resources.use(a_resource("one"))
    resources.use(broken)
    with caplog.at_level(logging.ERROR, "ostinato.resources"):
        close(resources)
    assert said == ["open one", "close one"]
    assert "broken" in caplog.text
    assert "stuck" in caplog.text


def never():
    if said is None:
        yield


def twice():
    yield 1
    yield 2


async def anever():
    if said is None:
        yield


def test_a_resource_yields_once(caplog):
    resources = Resources()
    with pytest.raises(Invalid, match="has not yielded: it must yield once"):
        resources.use(Resource(never))
    resources.use(Resource(twice))
    resources.close()
    assert "has yielded twice: it must yield once" in caplog.text

    async def scene() -> None:
        with pytest.raises(Invalid, match="has not yielded: it must yield once"):
            await Resources().ause(Resource(anever))

    asyncio.run(scene())


def test_a_def_task_cannot_use_an_async_resource():
    with pytest.raises(Invalid, match=r"is async: write `await ctx\.ause"):
        Resources().use(an_async_resource("a"))


def wrong_plain() -> int:
    return 1


def wrong_parameter(ctx):
    yield


@pytest.mark.parametrize(
    ("wrong", "why"),
    [(wrong_plain, "one `yield`, without @contextmanager"), (wrong_parameter, "must have no parameters")],
)
def test_what_cannot_be_a_resource_is_refused(wrong, why):
    with pytest.raises(Invalid, match=why):
        Ostinato().resource(wrong)


PLAIN = """
from ostinato import Context, Ostinato
app = Ostinato()

@app.resource
def numbers():
    print("open")
    yield [1]
    print("close")

@app.task
def count(ctx: Context) -> int:
    return len(ctx.use(numbers))

print(count(), count())
"""


def test_a_plain_call_opens_it_once_and_the_end_of_the_program_closes_it():
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["open", "1", "1", "close"]


def test_an_async_plain_call_opens_it_on_its_own_loop():
    app = Ostinato()

    @app.resource
    async def client():
        said.append("open")
        try:
            yield "client"
        finally:
            said.append("close")

    @app.task
    async def work(ctx: Context) -> str:
        return await ctx.ause(client)

    assert [asyncio.run(work()), asyncio.run(work())] == ["client", "client"]
    assert said == ["open", "close", "open", "close"]
