"""The HTTP process of `ostinato serve`, as the process of the engine sees it.

It gets the bound socket and one end of a pair. It is started again when it ends, and connections wait in the socket
meanwhile. When the process of the engine ends, however that happens, the pair is closed and the HTTP process ends too.
"""

import asyncio
import logging
import socket
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ostinato.app.engine_link import ASK, STOP, EngineReport, frames
from ostinato.app.listening import AppReference
from ostinato.app.signals import Signals
from ostinato.core.payload import LogMessage
from ostinato.engine.engine import Engine
from ostinato.engine.measurements import EngineView
from ostinato.isolation.frames import Frame, packed

if TYPE_CHECKING:
    from ostinato.app.app import Ostinato

FIRST_PAUSE: Final = 1.0  # seconds before a process that ended is started again
LONGEST_PAUSE: Final = 30.0
LOOK_EVERY: Final = 0.05  # seconds, whether it has ended
STOPS_WITHIN: Final = 7.0  # seconds: 5 for the answers that are under way, and a little

log = logging.getLogger("ostinato")


class HttpProcess:
    """Process that answers HTTP, kept alive until it is stopped."""

    def __init__(self, bound: socket.socket, app: AppReference, *, insecure: bool) -> None:
        self._bound, self._app, self._insecure = bound, app, insecure
        self._engine: EngineView | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._stopped = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> "asyncio.Task[None]":
        """Serve from now on; the task ends when the process is stopped."""
        if self._serving is None:
            self._serving = asyncio.create_task(self._keep_alive())
        return self._serving

    async def run_with(self, _: "Ostinato", engine: Engine, signals: Signals) -> None:
        """Work, and serve, until a signal stops both. HTTP stops first: then nothing new comes in."""
        engine.measure()
        self._engine = engine

        def stop() -> None:
            if self._stopped.is_set():  # the second signal
                engine.stop()
            self.stop()

        signals.pass_to(stop)
        serving, working = self.start(), asyncio.create_task(engine.run())
        await asyncio.wait({serving, working}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            engine.stop()
        elif not self._stopped.is_set():  # the engine has failed
            self.stop()
        await asyncio.gather(serving, working)

    def stop(self) -> None:
        """Accept no more, and finish answers that are under way; called again, end at once."""
        if self._stopped.is_set():
            self._kill()
            return
        self._stopped.set()
        self._bound.close()
        self._tell_to_stop()
        asyncio.get_running_loop().call_later(STOPS_WITHIN, self._kill)

    async def close(self) -> None:
        """Stop, if it has started."""
        if self._serving is not None and not self._serving.done():
            self.stop()
            await self._serving

    async def _keep_alive(self) -> None:
        """Start the process, and again whenever it has ended: after a second, then later and later."""
        loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
        while not self._stopped.is_set():
            began = loop.time()
            why = await self._run_once()
            if self._stopped.is_set():
                return
            pause = FIRST_PAUSE if loop.time() - began > LONGEST_PAUSE else pause
            log.error(LogMessage("HTTP process ended; starting it again", {"why": why, "in_seconds": pause}))
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopped.wait()
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _run_once(self) -> str:
        """Start a process and answer it until it has ended; return how it ended."""
        ours, theirs = socket.socketpair()
        try:
            # A stop may close the socket while the process is started: it is started with a copy.
            with theirs, self._bound.dup() as bound:
                process = self._process = await asyncio.to_thread(self._start, bound, theirs)
        except (OSError, RuntimeError) as error:  # RuntimeError: no thread can be started
            ours.close()
            return str(error)
        await self._talk(ours)
        code = await _ended(process)
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def _start(self, bound: socket.socket, theirs: socket.socket) -> "subprocess.Popen[bytes]":
        given = (bound.fileno(), theirs.fileno())
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "ostinato.app.http_main", *map(str, given)],
            pass_fds=given,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C in the terminal is for the engine's process
        )

    async def _talk(self, ours: socket.socket) -> None:
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self._writer.write(packed({"insecure": self._insecure}, self._app.to_json()))
        if self._stopped.is_set():
            self._tell_to_stop()

        def take(frame: Frame) -> None:
            if frame.head["do"] == ASK:
                self._answer()

        await frames(reader, take)
        self._writer.close()

    def _answer(self) -> None:
        """Report on the loop: the threads of asyncio may all wait for names and databases of sources."""
        if (
            self._engine is not None and self._writer is not None
        ):  # without an engine it waits for the database
            self._writer.write(packed({}, EngineReport.of(self._engine).to_json()))

    def _tell_to_stop(self) -> None:
        if self._writer is not None:
            self._writer.write(packed({"do": STOP}))

    def _kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()


async def _ended(process: "subprocess.Popen[bytes]") -> int:
    """Wait without a thread until a process has ended; kill it if it has closed its end and goes on."""
    now = asyncio.get_running_loop().time
    until = now() + STOPS_WITHIN
    while (code := process.poll()) is None:
        if now() > until:
            process.kill()
        await asyncio.sleep(LOOK_EVERY)
    return code
