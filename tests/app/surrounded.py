"""A program whose tasks run inside generators and use resources. Processes for runs import it, too."""

import asyncio
import os
import threading
from contextlib import contextmanager
from contextvars import ContextVar

from ostinato import Context, GiveUp, Ostinato

app = Ostinato("surrounded", poll_interval="1s")
TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")
ISOLATIONS = ["on_loop", "on_thread", "in_process", "async_in_process"]


def say(ctx: Context, line: str) -> None:
    """Add a line to the file that the args name."""
    with open(ctx.args["to"], "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


@contextmanager
def scope(tenant: str):
    token = TENANT.set(tenant)
    try:
        yield
    finally:
        TENANT.reset(token)


@app.around
def tenant(ctx: Context):
    say(ctx, f"begin {ctx.attempt}")
    with scope(ctx.args["tenant"]):
        try:
            yield
        except KeyError as error:
            say(ctx, "saw KeyError")
            if ctx.args["tenant"] == "replaces":
                raise GiveUp("no such tenant") from error
        finally:
            say(ctx, f"end on {os.getpid()}.{threading.get_ident()}")


@app.around
async def only_async(ctx: Context):
    await asyncio.sleep(0)
    say(ctx, "begin async")
    yield
    say(ctx, "end async")


@app.resource
def numbers():
    path = os.environ.get("NUMBERS_SAY", os.devnull)
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"open {os.getpid()}\n")
    yield [os.getpid()]
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"close {os.getpid()}\n")


@app.resource
async def client():
    async with asyncio.TaskGroup():
        path = os.environ.get("NUMBERS_SAY", os.devnull)
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"open client {os.getpid()}\n")
        yield asyncio.get_running_loop()
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"close client {os.getpid()}\n")


@app.resource
def broken():
    raise ConnectionError("no route")
    yield


def body(ctx: Context, fail: bool) -> str:
    say(ctx, f"task on {os.getpid()}.{threading.get_ident()}")
    if fail:
        raise KeyError("gone")
    return TENANT.get()


@app.task(isolation="async")
async def on_loop(ctx: Context, to: str, tenant: str, fail: bool = False) -> str:
    return body(ctx, fail)


@app.task(isolation="thread")
def on_thread(ctx: Context, to: str, tenant: str, fail: bool = False) -> str:
    return body(ctx, fail)


@app.task(isolation="process")
def in_process(ctx: Context, to: str, tenant: str, fail: bool = False) -> str:
    return body(ctx, fail)


@app.task(isolation="process")
async def async_in_process(ctx: Context, to: str, tenant: str, fail: bool = False) -> str:
    return body(ctx, fail)


@app.task(isolation="async")
async def use_on_loop(ctx: Context, to: str, tenant: str) -> int:
    assert await ctx.ause(client) is asyncio.get_running_loop()
    return (await ctx.ause(numbers))[0]


@app.task(isolation="thread")
def use_on_thread(ctx: Context, to: str, tenant: str) -> int:
    return ctx.use(numbers)[0]


@app.task(isolation="process")
def use_in_process(ctx: Context, to: str, tenant: str) -> int:
    return ctx.use(numbers)[0]


@app.task(isolation="process")
async def async_use_in_process(ctx: Context, to: str, tenant: str) -> int:
    assert await ctx.ause(client) is asyncio.get_running_loop()
    return (await ctx.ause(numbers))[0]


@app.task
def use_broken(ctx: Context, to: str, tenant: str) -> None:
    ctx.use(broken)


def register_too_late() -> None:
    """Register one that a process of its own cannot find."""

    @app.around
    def late(ctx: Context):
        yield


if __name__ == "__main__":
    app.run()
