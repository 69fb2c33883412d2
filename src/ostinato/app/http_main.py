"""The HTTP process of `ostinato serve`: `python -m ostinato.app.http_main SOCKET PAIR`, two file descriptors.

It receives a reference to the app over the pair, loads the app, and serves until a stop message or the end of the pair.
"""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from ostinato.app import Ostinato
from ostinato.app.engine_link import STOP, EngineLink, frames
from ostinato.app.listening import AppReference
from ostinato.app.loading import load_app
from ostinato.app.running import Signals, run_to_the_end
from ostinato.app.starting import InProcessHttp, begun
from ostinato.clock import MeasuredClock
from ostinato.core.errors import OstinatoError, SchemaBehind, StoreError, StoreUnavailable
from ostinato.isolation.frames import LENGTHS, Frame, Unpacking
from ostinato.telemetry.formatting import configure_logging

THREADS: Final = 16

log = logging.getLogger("ostinato")


def main(listening: int, pair: int) -> int:
    """Serve on a socket; return the exit code."""
    bound, end = socket.socket(fileno=listening), socket.socket(fileno=pair)
    for each in (bound, end):
        each.set_inheritable(False)
    first = _first_frame(end)
    if first is None:
        return 0
    try:
        app = load(AppReference.from_json(first.body))
        configure_logging(app.settings)
        run_to_the_end(_serve(app, bound, end, insecure=first.head["insecure"]))
    except OstinatoError as error:
        log.error("The HTTP process cannot serve: %s", error)
        return 2
    return 0


def load(reference: AppReference) -> Ostinato:
    """Load the app of a reference, with its settings."""
    app = load_app(reference.where)
    app.configure(**reference.chosen)
    return app


def _first_frame(end: socket.socket) -> Frame | None:
    """Wait for the first frame; None if the engine's process has ended."""
    lengths = end.recv(LENGTHS.size, socket.MSG_WAITALL)
    if len(lengths) < LENGTHS.size:
        return None
    rest = end.recv(sum(LENGTHS.unpack(lengths)), socket.MSG_WAITALL)
    return next(Unpacking().feed(lengths + rest), None)


async def _serve(app: Ostinato, bound: socket.socket, end: socket.socket, *, insecure: bool) -> None:
    reader, writer = await asyncio.open_connection(sock=end)
    link = EngineLink(writer, os.getppid())
    http = InProcessHttp(bound, THREADS, insecure=insecure)
    with Signals() as signals:
        receiving = asyncio.create_task(_receive(reader, link, signals, http))
        if await begun(lambda: _open(app), signals, http):
            http.open(app, link)
            signals.pass_to(http.stop)
            duties = _duties(app, link)
            await http.start()
            for each in duties:
                each.cancel()
        receiving.cancel()
    await http.close()


def _open(app: Ostinato) -> None:
    """Open the database. With an old schema it counts as unavailable, as the engine's process will upgrade it."""
    try:
        app.open()
    except SchemaBehind as error:
        raise StoreUnavailable(str(error)) from None


async def _receive(reader: asyncio.StreamReader, link: EngineLink, signals: Signals, http: InProcessHttp) -> None:
    """Receive answers and the stop message. If the engine's process has ended, stop within seconds."""

    def take(frame: Frame) -> None:
        if frame.head.get("do") == STOP:
            signals.hear()
        else:
            link.answered(frame)

    await frames(reader, take)
    http.server.force_exit = True
    signals.hear()


def _duties(app: Ostinato, link: EngineLink) -> "list[asyncio.Task[None]]":
    """Start duties that are otherwise the engine's: count ended executions, and measure the clock.

    Executions are counted even if `/metrics` is not read, because deleting a job deletes its counters.
    """
    clock, settings, counters = app.parts.clock, app.settings, app.parts.store.statistics.counters
    loops = [_repeat(lambda: link.executions.take_in(counters()), settings.metrics)]
    if isinstance(clock, MeasuredClock):
        loops.append(_repeat(clock.remeasure, settings.sweep))
    return [asyncio.create_task(each) for each in loops]


async def _repeat(duty: Callable[[], None], every: timedelta) -> None:
    """Repeat a duty in a thread for ever; a failed turn is made up by the next one."""
    while True:
        with suppress(StoreError, RuntimeError):  # RuntimeError: no thread can be started
            await asyncio.to_thread(duty)
        await asyncio.sleep(every.total_seconds())


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
