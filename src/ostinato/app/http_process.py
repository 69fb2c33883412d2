"""The HTTP process of `ostinato serve`, as the engine's process sees it.

It gets the bound socket and one end of a pair of sockets. If it ends, it is started again; meanwhile connections wait
in the socket. When the engine's process ends in any way, the pair is closed and the HTTP process ends too.
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
from ostinato.app.running import Signals
from ostinato.core.payload import LogMessage
from ostinato.engine.engine import Engine
from ostinato.isolation.frames import Frame, packed
from ostinato.telemetry.process_metrics import EngineView

if TYPE_CHECKING:
    from ostinato.app.app import Ostinato

FIRST_PAUSE: Final = 1.0  # seconds before a process that ended is started again
LONGEST_PAUSE: Final = 30.0
CHECK_EVERY: Final = 0.05  # seconds between two checks whether the process has ended
STOPS_WITHIN: Final = 7.0  # seconds: 5 for open answers, and a margin

log = logging.getLogger("ostinato")


class HttpProcess:
    """The process that answers HTTP; it is restarted until it is stopped."""

    def __init__(self, bound: socket.socket, app: AppReference, *, insecure: bool) -> None:
        self._bound, self._app, self._insecure = bound, app, insecure
        self._engine: EngineView | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._stopped = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> "asyncio.Task[None]":
        """Start to serve; the task ends when the process is stopped."""
        if self._serving is None:
            self._serving = asyncio.create_task(self._keep_alive())
        return self._serving

    async def run_with(self, _: "Ostinato", engine: Engine, signals: Signals) -> None:
        """Work and serve until a signal stops both. HTTP stops first, so that no new requests come in."""
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
        """Accept no new requests and finish open answers; the second call ends the process at once."""
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
        """Start the process, and restart it whenever it ends: after a second, then with growing pauses."""
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
        """Start a process and answer its queries until it ends; return how it ended."""
        ours, theirs = socket.socketpair()
        try:
            # A copy, because a stop may close the socket while the process starts.
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
        """Send a report from the loop: all threads of asyncio may be busy with DNS and databases of sources."""
        if self._engine is not None and self._writer is not None:  # without an engine it waits for the database
            self._writer.write(packed({}, EngineReport.of(self._engine).to_json()))

    def _tell_to_stop(self) -> None:
        if self._writer is not None:
            self._writer.write(packed({"do": STOP}))

    def _kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()


async def _ended(process: "subprocess.Popen[bytes]") -> int:
    """Wait without a thread until a process has ended; kill it if it does not end in time."""
    now = asyncio.get_running_loop().time
    until = now() + STOPS_WITHIN
    while (code := process.poll()) is None:
        if now() > until:
            process.kill()
        await asyncio.sleep(CHECK_EVERY)
    return code
