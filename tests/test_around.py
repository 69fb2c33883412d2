"""What runs around a task: its order, the exceptions it sees, and the mistakes in it."""

import asyncio
import traceback
from functools import partial

import pytest

from ostinato import Context, GiveUp, Invalid
from ostinato.task import Registry, Task
from ostinato.task.around import AroundReference, known

said: list[str] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    said.clear()


def outer(ctx: Context):
    said.append(f"begin outer {ctx.task}")
    try:
        yield
    except BaseException as error:
        said.append(f"outer sees {type(error).__name__}")
        raise
    said.append("end outer")


def inner(ctx: Context):
    said.append("begin inner")
    try:
        yield
    except BaseException as error:
        said.append(f"inner sees {type(error).__name__}")
        raise
    said.append("end inner")


async def inner_async(ctx: Context):
    await asyncio.sleep(0)
    said.append("begin async")
    try:
        yield
    except BaseException as error:
        said.append(f"async sees {type(error).__name__}")
        raise
    await asyncio.sleep(0)
    said.append("end async")


def swallow(ctx: Context):
    try:
        yield
    except KeyError:
        said.append("swallow")


async def swallow_async(ctx: Context):
    try:
        yield
    except KeyError:
        said.append("swallow")


def replace(ctx: Context):
    try:
        yield
    except KeyError as error:
        raise GiveUp("replaced") from error


async def replace_async(ctx: Context):
    try:
        yield
    except KeyError as error:
        raise GiveUp("replaced") from error


def fails_after(ctx: Context):
    yield
    raise ValueError("after")


def fails_before(ctx: Context):
    raise ValueError("before")
    yield


def never_yields(ctx: Context):
    if ctx.task == "nothing":
        yield


def yields_twice(ctx: Context):
    yield
    yield


async def yields_twice_async(ctx: Context):
    yield
    yield


def does_it() -> str:
    said.append("task")
    return "result"


async def does_it_async() -> str:
    said.append("task")
    return "result"


def raises(error: BaseException):
    def task() -> None:
        raise error

    return task


def raises_async(error: BaseException):
    async def task() -> None:
        raise error

    return task


BOTH = pytest.mark.parametrize("raiser", [raises, raises_async], ids=["def", "async"])


def run(function, *arounds, built_in: bool = False):
    """Run a function inside these, as a worker does."""
    registry = Registry({"work": lambda: Task(function, "work")} if built_in else {}, "shop")
    if not built_in:
        registry.add(Task(function, "work"))
    for each in arounds:
        registry.arounds.add(each)
    task = registry.wrapped(registry.get("work"))
    value = task.call(Context.quiet("work", {}), {})
    return asyncio.run(value) if task.is_async else value


def test_the_first_is_the_outermost():
    assert run(does_it, outer, inner) == "result"
    assert said == ["begin outer work", "begin inner", "task", "end inner", "end outer"]


def test_an_async_task_runs_inside_def_and_async_ones():
    assert run(does_it_async, outer, inner_async) == "result"
    assert said == ["begin outer work", "begin async", "task", "end async", "end outer"]


def test_a_def_task_runs_inside_def_ones_only():
    run(does_it, inner_async, inner)
    assert said == ["begin inner", "task", "end inner"]


def test_the_exception_is_seen_at_the_yield_the_innermost_first():
    with pytest.raises(KeyError):
        run(raises(KeyError()), outer, inner)
    assert said[2:] == ["inner sees KeyError", "outer sees KeyError"]


def test_the_exception_of_an_async_task_is_seen_at_the_yield_too():
    with pytest.raises(asyncio.CancelledError):
        run(raises_async(asyncio.CancelledError()), outer, inner_async)
    assert said[2:] == ["async sees CancelledError", "outer sees CancelledError"]


@pytest.mark.parametrize(
    ("raiser", "swallower"), [(raises, swallow), (raises_async, swallow), (raises_async, swallow_async)]
)
def test_the_exception_cannot_be_swallowed(raiser, swallower):
    with pytest.raises(KeyError):
        run(raiser(KeyError()), outer, swallower)
    assert said[1:] == ["swallow", "outer sees KeyError"]


def test_the_exception_may_be_replaced_and_outer_ones_see_the_new_one():
    with pytest.raises(GiveUp, match="replaced") as found:
        run(raises(KeyError()), outer, replace)
    assert isinstance(found.value.__cause__, KeyError)
    assert said[1:] == ["outer sees GiveUp"]


def test_an_async_one_may_replace_it_too():
    with pytest.raises(GiveUp, match="replaced"):
        run(raises_async(KeyError()), outer, replace_async)
    assert said[1:] == ["outer sees GiveUp"]


@BOTH
@pytest.mark.parametrize("error", [StopIteration("mine"), StopAsyncIteration("mine")])
def test_even_a_stop_iteration_is_only_an_error(raiser, error):
    # Python itself turns a StopIteration that leaves a coroutine into a RuntimeError.
    disguised = raiser is raises_async and isinstance(error, StopIteration)
    with pytest.raises(RuntimeError if disguised else type(error)):
        run(raiser(error), outer, inner)


@pytest.mark.parametrize("function", [does_it, does_it_async])
def test_one_that_fails_after_the_task_fails_the_run(function):
    with pytest.raises(ValueError, match="after"):
        run(function, outer, fails_after)
    assert said == ["begin outer work", "task", "outer sees ValueError"]


@pytest.mark.parametrize("function", [does_it, does_it_async])
def test_one_that_fails_before_the_task_fails_the_run_and_the_task_does_not_begin(function):
    with pytest.raises(ValueError, match="before"):
        run(function, outer, fails_before)
    assert said == ["begin outer work", "outer sees ValueError"]


def yields_again(ctx: Context):
    try:
        yield
    except KeyError:
        yield


@pytest.mark.parametrize(
    ("wrong", "function"),
    [
        (never_yields, does_it), (never_yields, does_it_async),
        (yields_twice, does_it), (yields_twice, does_it_async),
        (yields_again, raises(KeyError())), (yields_again, raises_async(KeyError())),
    ],
)  # fmt: skip
def test_one_that_does_not_yield_once_fails_the_run(function, wrong):
    with pytest.raises(Invalid, match="must yield once"):
        run(function, wrong)


def test_an_async_one_that_yields_twice_fails_the_run():
    with pytest.raises(Invalid, match="must yield once"):
        run(does_it_async, yields_twice_async)


@BOTH
def test_the_traceback_is_the_tasks_own(raiser):
    with pytest.raises(KeyError) as found:
        run(raiser(KeyError("gone")), outer, inner)
    frames = traceback.extract_tb(found.value.__traceback__)
    theirs = [each.name for each in frames if not each.filename.endswith(("/task/around.py", "/task/task.py"))]
    assert theirs[-1] == "task"
    assert not {"outer", "inner"} & set(theirs), "it did not fail there"


def test_built_in_tasks_run_inside_those_that_ask_for_it():
    run(does_it, outer, built_in=True)
    assert said == ["task"]
    said.clear()
    registry = Registry({"work": lambda: Task(does_it, "work")}, "shop")
    registry.arounds.add(outer, built_in=True)
    registry.wrapped(registry.get("work")).call(Context.quiet("work", {}), {})
    assert said == ["begin outer work", "task", "end outer"]


def test_a_plain_call_of_the_function_runs_nothing_around_it():
    registry = Registry({}, "shop")
    task = Task(does_it, "work")
    registry.add(task)
    registry.arounds.add(outer)
    registry.wrapped(task)
    assert task() == "result"
    assert said == ["task"]


def test_without_any_the_task_itself_runs():
    registry = Registry({}, "shop")
    registry.add(task := Task(does_it, "work"))
    assert registry.wrapped(task) is task


def plain(ctx: Context) -> None:
    pass


async def coroutine(ctx: Context) -> None:
    pass


@pytest.mark.parametrize("wrong", [plain, coroutine, partial(plain)])
def test_only_a_generator_can_run_around_tasks(wrong):
    with pytest.raises(Invalid, match="one `yield`, without @contextmanager"):
        Registry({}, "shop").arounds.add(wrong)


def test_one_function_runs_around_the_tasks_of_an_app_once():
    registry = Registry({}, "shop")
    registry.arounds.add(outer)
    with pytest.raises(Invalid, match=r"test_around\.outer already runs around the tasks of this app"):
        registry.arounds.add(outer)


def test_a_process_that_has_not_registered_one_says_so():
    with pytest.raises(Invalid, match="register it when its module is imported"):
        known(AroundReference("shop", "elsewhere", "tenant"))
