"""An app whose tasks talk: `ostinato serve --app talkative:app`, from this folder."""

# ruff: noqa: T201  printing is what this is about
from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from pathlib import Path

from ostinato import Context, Ostinato

app = Ostinato("talkative")
log = logging.getLogger("shop")

LINE = "x" * 1023 + "\n"
LOOK_EVERY = 0.02


def say(ctx: Context, run: int, lines: int) -> None:
    for n in range(lines):
        print(f"{run} printed {n}")
        ctx.log.info(f"{run} said {n}")
        log.warning("%d logged %d", run, n)
    ctx.progress(lines, of=2 * lines, message="half")


def hold(path: str) -> None:
    while path and not Path(path).exists():
        time.sleep(LOOK_EVERY)


@app.task
def on_thread(ctx: Context, run: int, lines: int, path: str = "") -> None:
    say(ctx, run, lines)
    hold(path)


@app.task
async def on_loop(ctx: Context, run: int, lines: int, path: str = "") -> None:
    say(ctx, run, lines)
    while path and not Path(path).exists():
        await asyncio.sleep(LOOK_EVERY)


@app.task(isolation="process")
def in_process(ctx: Context, run: int, lines: int, path: str = "") -> None:
    say(ctx, run, lines)
    sys.stdout.flush()
    subprocess.run(["echo", f"{run} of a subprocess"], check=True)
    hold(path)


@app.task
def floods_thread(megabytes: int) -> None:
    for _ in range(megabytes * 1024):
        sys.stdout.write(LINE)


@app.task(isolation="process")
def floods_process(megabytes: int) -> None:
    for _ in range(megabytes * 1024):
        sys.stdout.write(LINE)
