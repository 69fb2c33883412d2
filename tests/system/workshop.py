"""The app of these tests: tasks that leave marks in a file. As a program, it is one worker process.

    python workshop.py /tmp/folder '{"database_url": "sqlite:////…", "lease": "2s"}'

A task that holds goes on until the file `release` is in the folder.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ostinato import Context, Ostinato
from ostinato.core.errors import OstinatoError
from ostinato.telemetry.formatting import configure_logging

LOOK_EVERY = 0.02
FOLDER = Path(sys.argv[1] if __name__ == "__main__" else "/nowhere")  # tasks run in worker processes only


def mark(what: str, ctx: Context) -> None:
    line = f"{what} {ctx.job_id} {ctx.attempt} {os.getpid()} {time.time()}\n"
    descriptor = os.open(FOLDER / "marks", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def released() -> bool:
    return (FOLDER / "release").exists()


async def quick(ctx: Context) -> None:
    mark("start", ctx)


async def sleeps(ctx: Context, seconds: float) -> None:
    mark("start", ctx)
    await asyncio.sleep(seconds)
    mark("end", ctx)


async def holds(ctx: Context) -> str:
    mark("start", ctx)
    while not released():
        await asyncio.sleep(LOOK_EVERY)
    mark("end", ctx)
    return "held"


def holds_thread(ctx: Context) -> str:
    mark("start", ctx)
    while not released():
        time.sleep(LOOK_EVERY)
    mark("end", ctx)
    return "held"


async def holds_the_loop(ctx: Context) -> str:
    return holds_thread(ctx)


async def ignores_cancel(ctx: Context) -> None:
    mark("start", ctx)
    while not released():
        try:
            await asyncio.sleep(LOOK_EVERY)
        except asyncio.CancelledError:
            mark("ignored", ctx)
    mark("end", ctx)


async def blocks_the_loop(ctx: Context, seconds: float) -> None:
    mark("start", ctx)
    time.sleep(seconds)
    mark("end", ctx)


async def kills_its_worker(ctx: Context, after: float) -> None:
    mark("kill", ctx)
    await asyncio.sleep(after)
    os.kill(os.getpid(), signal.SIGKILL)


async def dies_first(ctx: Context, when: str) -> str:
    """A step: its first attempt takes the worker with it, as it begins or when its work is done."""
    mark(f"begin:{ctx.step}", ctx)
    if ctx.attempt == 0 and when == "begin":
        os.kill(os.getpid(), signal.SIGKILL)
    mark(f"work:{ctx.step}", ctx)
    if ctx.attempt == 0 and when == "end":
        os.kill(os.getpid(), signal.SIGKILL)
    return ctx.step


async def charges(ctx: Context, seconds: float = 0.02) -> str:
    """What must not be done twice."""
    await asyncio.sleep(seconds)
    return "charged"


class Meeting:
    """How many are in this process at once."""

    here = 0
    lock = threading.Lock()


async def meets(ctx: Context, others: int) -> None:
    Meeting.here += 1
    while Meeting.here < others:
        await asyncio.sleep(LOOK_EVERY)
    mark("met", ctx)


def meets_on_threads(ctx: Context, others: int) -> None:
    with Meeting.lock:
        Meeting.here += 1
    while Meeting.here < others:
        time.sleep(LOOK_EVERY)
    mark("met", ctx)


async def asks(ctx: Context, url: str, times: int, patience: float) -> None:
    """Sends requests, one after the other; a budget that is spent for longer than its patience defers it."""
    for number in range(ctx.checkpoint or 0, times):
        async with ctx.outgoing.request("GET", url, patience=patience) as reply:
            await reply.require_good()
            await reply.read()
        await asyncio.to_thread(ctx.save_checkpoint, number + 1)


TASKS = (
    quick, sleeps, holds, holds_thread, holds_the_loop, ignores_cancel, blocks_the_loop, kills_its_worker, meets,
    meets_on_threads, dies_first, asks,
)  # fmt: skip


def make_app(**settings: Any) -> Ostinato:
    app = Ostinato("workshop", tasks={task.__name__: task for task in TASKS}, **settings)
    app.task(on_lost="fail", retries=0)(charges)
    return app


def be_impatient(app: Ostinato, deadline: float) -> None:
    """Wait no longer than this for the database; take a SQLite file for read-only while a file `read-only` says so."""
    app.open()
    database: Any = app.parts.store.database
    database.close()
    database._deadline = deadline
    if not database.elsewhere:
        threading.Thread(target=obey, args=(database,), daemon=True).start()


def obey(database: Any) -> None:
    refused = False
    while True:
        time.sleep(LOOK_EVERY)
        wanted = (FOLDER / "read-only").exists()
        if wanted != refused and database._writer is not None:
            with database._turn.held(60):
                database.execute(database._writer, f"PRAGMA query_only = {int(wanted)}")
            refused = wanted


def main() -> None:
    given = json.loads(sys.argv[2])
    deadline = given.pop("deadline", None)
    app = make_app(**given)
    configure_logging(app.settings)
    if deadline is not None:
        be_impatient(app, deadline)
    try:
        app.run()
    except OstinatoError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
