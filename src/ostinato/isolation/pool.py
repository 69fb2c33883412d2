"""The worker's pool of processes: a supervisor, started for the first run, and its runs.

The pool belongs to the worker's loop. When the supervisor dies, its children die too, and the guardian ends their
descendants. The pool kills their groups once more and reports the runs as lost. The next run starts a new supervisor.
"""

import asyncio
import logging
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple, Protocol

from ostinato.isolation import limits, system
from ostinato.isolation.frames import Frame, Wire
from ostinato.isolation.orders import NOT_STARTED, SUPERVISOR_LOST, Report, RunOrder
from ostinato.isolation.plan import CUT, STREAMS, ProcessPlan, WrittenLine, to_logging
from ostinato.isolation.preparing import Surroundings

LOOK_EVERY: Final = 0.02  # seconds
LOOK_TIMEOUT: Final = 5.0
REAP_EVERY: Final = 0.1  # seconds
LINES_PER_TURN: Final = 500  # log lines taken at once: some milliseconds of the loop

log = logging.getLogger("ostinato.isolation")


class _RunListener(Protocol):
    """Listener to a run's messages, called on the loop."""

    def progressed(self, progress: str) -> None: ...
    def wrote(self, lines: int, size: int, last: str) -> None: ...
    def checkpointed(self, checkpoint: str) -> None: ...
    def called(self, name: str, request: str) -> None: ...
    def ended(self, report: Report) -> None: ...


class _Given(NamedTuple):
    """A run that the supervisor has."""

    order: RunOrder
    listener: _RunListener


class Pool:
    """Pool of processes for runs."""

    def __init__(
        self,
        plan: ProcessPlan,
        modules: Callable[[], Sequence[str]] = tuple,
        sink: Callable[[WrittenLine], None] = to_logging,
    ) -> None:
        """Children import `modules` before their first run; `sink` gets every line of a run."""
        self.plan = plan
        self._modules, self._sink = modules, sink
        self._wire: Wire | None = None
        self._process: subprocess.Popen[bytes] | None = None  # the guardian
        self._supervisor: int | None = None
        self._runs = dict[int, _Given]()
        self._ending = dict[int, _Given]()  # lost with their supervisor; not reported yet
        self._children = set[int]()
        self._holding = False  # a child has opened resources
        self._last = 0
        self._writing = False

    @property
    def supervisor_pid(self) -> int | None:
        """The supervisor's pid, once it has sent it; None without a supervisor."""
        return self._supervisor

    @property
    def running(self) -> int:
        return len(self._runs)

    def knows(self, run: int) -> bool:
        """Return True if the end of a run has not been reported yet."""
        return run in self._runs or run in self._ending

    def begin(self, order: RunOrder, listener: _RunListener) -> int:
        """Start a run and return its number; the listener gets its messages."""
        body = order.to_json()
        wire = self._wire or self._start()
        self._last += 1
        self._runs[self._last] = _Given(order, listener)
        head: dict[str, object] = {"do": "run", "run": self._last}
        if watched := limits.watched(order.definition.policies):
            head["limits"] = watched
        wire.send(head, body)
        self._write_later()
        return self._last

    def stop(self, run: int, grace: float) -> None:
        """Stop a run: SIGTERM now, SIGKILL after the grace. It has ended when its listener's `ended` is called."""
        self._send({"do": "stop", "run": run, "grace": grace})

    def answer(self, run: int, error: str | None, body: bytes = b"", *, lost: bool = True) -> None:
        """Answer the request of a run (a checkpoint, a call): done, or refused. `lost`: the run has lost its lease."""
        self._send({"do": "answer", "run": run, "error": error, "lost": lost}, body)

    async def end_all(self, seconds: float) -> None:
        """Kill all runs, and wait until they have ended."""
        for run in self._runs:
            self.stop(run, 0)
        until = asyncio.get_running_loop().time() + seconds
        while (self._runs or self._ending) and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(LOOK_EVERY)

    async def dismiss(self, seconds: float) -> None:
        """Let the idle children close their resources and end, if one has any open."""
        if not self._holding:
            return
        self._send({"do": "dismiss"})
        until = asyncio.get_running_loop().time() + seconds
        while self._children and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(LOOK_EVERY)

    def close(self) -> None:
        """Close the connection: the supervisor kills all its processes, and ends."""
        if self._wire is not None:
            self._disconnect()

    # -- the supervisor

    def _start(self) -> Wire:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "ostinato.isolation.supervisor"]
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*command, str(theirs.fileno()), self.plan.to_json()],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,  # a Ctrl-C in the terminal is for the worker
                )
            except OSError:
                ours.close()
                raise
        wire = self._wire = Wire(ours)
        surroundings = Surroundings.here(list(self._modules()), logging.getLogger().level)
        wire.send({"do": "prepare"}, surroundings.to_json())
        asyncio.get_running_loop().add_reader(wire, self._read)
        return wire

    def _send(self, head: dict[str, object], body: bytes = b"") -> None:
        if self._wire is not None:
            self._wire.send(head, body)
            self._write_later()

    def _write_later(self) -> None:
        if self._wire is not None and self._wire.unsent and not self._writing:
            self._writing = True
            asyncio.get_running_loop().add_writer(self._wire, self._write)

    def _write(self) -> None:
        if self._wire is not None:
            self._wire.flush()
            if not self._wire.unsent:
                asyncio.get_running_loop().remove_writer(self._wire)
                self._writing = False

    def _read(self) -> None:
        if self._wire is not None:
            self._go_on(self._wire, self._parts(self._wire))

    def _go_on(self, wire: Wire, parts: Iterator[None], *, again: bool = False) -> None:
        """Handle one part of the frames received, and the next in a later turn of the loop: it stays responsive."""
        if self._wire is not wire:
            return
        loop = asyncio.get_running_loop()
        for _ in parts:
            loop.remove_reader(wire)
            loop.call_soon(partial(self._go_on, wire, parts, again=True))
            return
        if self._wire is not wire:  # a listener has closed the pool
            return
        if again:
            loop.add_reader(wire, self._read)
        if wire.closed:
            self._on_supervisor_lost()

    def _parts(self, wire: Wire) -> Iterator[None]:
        for frame in wire.receive():
            if frame.head["ev"] in ("out", "log"):
                yield from self._write_lines(frame, self._runs.get(frame.head.get("run") or 0))
            else:
                self._on_frame(frame)

    def _on_frame(self, frame: Frame) -> None:
        head, text = frame.head, frame.body.decode("utf-8", "replace")
        given = self._runs.get(head.get("run") or 0)
        match head["ev"]:
            case "ended":
                if given is not None:
                    del self._runs[head["run"]]
                    given.listener.ended(Report.of(frame, given.order.definition.policies))
            case "progress" if given is not None:
                given.listener.progressed(text)
            case "checkpoint" if given is not None:
                given.listener.checkpointed(text)
            case "call" if given is not None:
                given.listener.called(head["name"], text)
            case "holds":
                self._holding = True
            case "up":
                self._supervisor = head["pid"]
            case "born":
                self._children.add(head["pid"])
            case "gone":
                self._children.discard(head["pid"])

    def _write_lines(self, frame: Frame, given: _Given | None) -> Iterator[None]:
        head, text = frame.head, frame.body.decode("utf-8", "replace")
        stream, order = head.get("stream", "log"), None if given is None else given.order
        at = datetime.fromtimestamp(head["at"], UTC)
        key = "" if order is None else order.key
        execution_id = None if order is None else order.live.id
        level, logger = head.get("level", logging.INFO), head.get("logger", "")
        lines = [text] if stream == "log" else text.removesuffix("\n").split("\n")
        if given is not None:
            _report_size(given.listener, stream, lines, len(frame.body))
        for begin in range(0, len(lines), LINES_PER_TURN):
            if begin:
                yield
            for line in lines[begin : begin + LINES_PER_TURN]:
                self._sink(WrittenLine(execution_id, key, at, stream, level, logger, line))

    # -- the end of the supervisor

    def _disconnect(self) -> None:
        wire, process = self._wire, self._process
        self._wire = self._process = self._supervisor = None
        if wire is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(wire)
            if self._writing:
                loop.remove_writer(wire)
            self._writing = False
            wire.close()
        if process is not None:
            _closed_guardians.append(process)
            _reap()

    def _on_supervisor_lost(self) -> None:
        """Report all runs as lost. They are noted first, so that no error can hide the end of a run."""
        log.warning("Process supervisor died; its runs are lost: runs=%d", len(self._runs))
        lost, children, guardian = list(self._runs), set(self._children), self._process
        report = Report(NOT_STARTED if self._supervisor is None else SUPERVISOR_LOST)
        self._ending |= self._runs
        self._runs.clear()
        self._children.clear()
        self._disconnect()
        until = asyncio.get_running_loop().time() + LOOK_TIMEOUT
        self._report_when_ended(lost, report, guardian, children, until)

    def _report_when_ended(
        self,
        lost: Sequence[int],
        report: Report,
        guardian: "subprocess.Popen[bytes] | None",
        groups: set[int],
        until: float,
    ) -> None:
        """Report the runs as ended, once the guardian has ended: it ends all their processes first."""
        for group in groups:
            system.kill(group)
        loop = asyncio.get_running_loop()
        left = {group for group in groups if system.group_lives(group)}
        if (left or (guardian is not None and guardian.poll() is None)) and loop.time() < until:
            loop.call_later(LOOK_EVERY, self._report_when_ended, lost, report, guardian, left, until)
            return
        for run in lost:
            self._ending.pop(run).listener.ended(report)


_closed_guardians: list["subprocess.Popen[bytes]"] = []  # guardians that may still have to be waited for


def _reap() -> None:
    """Wait for ended guardians, so that none stays a zombie. It uses no thread: the system may allow none."""
    _closed_guardians[:] = [process for process in _closed_guardians if process.poll() is None]
    if _closed_guardians:
        asyncio.get_running_loop().call_later(REAP_EVERY, _reap)


def _report_size(listener: _RunListener, stream: str, lines: Sequence[str], size: int) -> None:
    """Report the output of a run. Log records are not output; of cut output only the size is known."""
    if stream == CUT:
        listener.wrote(0, int(lines[0]), "")
    elif stream in STREAMS:
        last = next((line for line in reversed(lines) if line.strip()), "")
        listener.wrote(len(lines), size, last.strip())
