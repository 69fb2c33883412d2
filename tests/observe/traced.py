"""A program whose tasks tell in which trace they run. Processes for runs import it; as a program, it is a worker."""

import asyncio
import json
import os
import signal
import sys
from typing import Any

from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ostinato import Context, Defer, GiveUp, Ostinato

app = Ostinato("traced", poll_interval="1s")
ISOLATIONS = ["on_loop", "on_thread", "in_process", "async_in_process"]


def current() -> str | None:
    """Return the traceparent of the current span."""
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")


def told(ctx: Context, fail: int) -> dict[str, Any]:
    if ctx.attempt < fail:
        broken(ctx.attempt)
    return {"current": current(), "own": ctx.traceparent, "pid": os.getpid()}


def broken(attempt: int) -> None:
    raise KeyError(f"no order {attempt}")


@app.task
async def on_loop(ctx: Context, fail: int = 0) -> dict[str, Any]:
    return told(ctx, fail)


@app.task
def on_thread(ctx: Context, fail: int = 0) -> dict[str, Any]:
    return told(ctx, fail)


@app.task(isolation="process")
def in_process(ctx: Context, fail: int = 0) -> dict[str, Any]:
    return told(ctx, fail)


@app.task(isolation="process")
async def async_in_process(ctx: Context, fail: int = 0) -> dict[str, Any]:
    return told(ctx, fail)


@app.task
def gives_up() -> Any:
    return GiveUp("no such customer")


@app.task
def puts_off(ctx: Context) -> str:
    if not ctx.live.releases:
        raise Defer(0.01)
    return "done"


@app.task(isolation="process")
def dies_in_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.task
async def kills_its_worker(ctx: Context) -> int:
    if ctx.attempt == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return ctx.attempt


@app.task
async def hangs() -> None:
    await asyncio.Event().wait()


if __name__ == "__main__":
    app.configure(**json.loads(sys.argv[1]))
    app.run()
