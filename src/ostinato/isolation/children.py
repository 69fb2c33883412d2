"""Children as their supervisor sees them, and the guardian above it, which ends all processes of runs.

A child adopts the orphans among its descendants, so it knows whether a run left processes behind. When a child ends,
the supervisor adopts its descendants. It kills every child process that it did not fork itself.
"""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from mmap import mmap
from resource import struct_rusage
from typing import Final

from ostinato.isolation import system
from ostinato.isolation.child import BEGUN, STOP_ASKED, be_child
from ostinato.isolation.frames import Head, Wire
from ostinato.isolation.plan import Output
from ostinato.isolation.preparing import Surroundings

MAX_RSS_UNIT: Final = 1024 if system.HAS_PROC else 1  # bytes
CPU_GRACE: Final = 1.0  # seconds of CPU to clean up after the limit is reached


class ChildState(Enum):
    PREPARING = auto()  # imports the user's code
    IDLE = auto()
    BUSY = auto()
    LEAVING = auto()  # asked to end; gets no more runs
    DEAD = auto()


@dataclass(slots=True)
class ChildRun:
    """A run that the worker requested."""

    id: int
    body: bytes
    limits: dict[str, float]
    kill_at: float | None = None  # the time of SIGKILL, once asked to stop
    stopped: str | None = None  # terminated, killed
    limit: str | None = None  # the one that was exceeded
    ended: Head | None = None  # the child's report, once the task has returned
    outcome: bytes = b""
    cpu: int = 0  # microseconds of processes that outlived the child
    peak: int = 0  # bytes


@dataclass(slots=True)
class Family:
    """A child, its connections and its run."""

    pid: int
    wire: Wire
    output: Output
    shared: mmap
    since: float  # when its state began
    state: ChildState = ChildState.PREPARING
    run: ChildRun | None = None
    runs: int = 0
    total: int = 0  # microseconds of CPU before the present run
    first_memory: int = 0
    status: int | None = None  # the wait status of the ended process
    relatives: set[int] = field(default_factory=set)  # descendants seen when it was killed

    def begin(self, run: ChildRun) -> None:
        self.state, self.run = ChildState.BUSY, run
        self.shared[BEGUN] = 0
        self.wire.send({}, run.body)

    def take_back(self) -> ChildRun | None:
        """Return and forget the run if the child died before it read the order; otherwise None."""
        run = self.run
        if run is None or self.shared[BEGUN] or run.kill_at is not None or run.limit is not None:
            return None
        self.run = None
        return run

    def terminate(self) -> None:
        """Ask the child and its group to stop."""
        self.shared[STOP_ASKED] = 1
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the child and its descendants. Those forked meanwhile are found later as orphans."""
        self.relatives |= set(system.descendants(self.pid))
        for pid in (self.pid, *self.relatives):
            system.kill(pid)

    @property
    def has_descendants(self) -> bool:
        return bool(system.descendants(self.pid))

    def count(self, used: struct_rusage, before: int = 0) -> None:
        """Add the usage of a process of the run that the supervisor has waited for."""
        if self.run is not None:
            self.run.cpu += max(round((used.ru_utime + used.ru_stime) * 1e6) - before, 0)
            self.run.peak = max(self.run.peak, used.ru_maxrss * MAX_RSS_UNIT)

    def died(self, status: int, used: struct_rusage) -> None:
        """Note that the child has ended."""
        self.state, self.status = ChildState.DEAD, status
        if self.run is None:
            return
        if self.run.ended is None:
            self.count(used, self.total)
        if self.run.kill_at is not None:
            self.run.stopped = self.run.stopped or "terminated"

    def exceeded(self) -> str | None:
        """Return the limit that the run has exceeded, or None."""
        limits = {} if self.run is None else self.run.limits
        if self.output.written > limits.get("output", float("inf")):
            return "OutputLimit"
        if "cpu" not in limits and "memory" not in limits:
            return None
        used = [usage for pid in (self.pid, *system.descendants(self.pid)) if (usage := system.usage_of(pid))]
        if sum(each.cpu for each in used) - self.total / 1e6 > limits.get("cpu", float("inf")) + CPU_GRACE:
            return "CpuLimit"
        if max((each.memory for each in used), default=0) > limits.get("memory", float("inf")):
            return "MemoryLimit"
        return None

    def report(self) -> Head:
        """Return the report of the run for the worker."""
        run = self.run
        assert run is not None
        ended = run.ended or {}
        head: Head = {
            "ev": "ended",
            "run": run.id,
            "cpu": ended.get("cpu", 0) + run.cpu,
            "peak": max(ended.get("peak", 0), run.peak),
            "raised": ended.get("raised"),
        }
        if run.ended is None and self.status is not None:
            head |= how_it_ended(self.status)
        return head | {"stopped": run.stopped, "limit": run.limit}


def how_it_ended(status: int) -> Head:
    """Return the signal or the exit code from a wait status."""
    code = os.waitstatus_to_exitcode(status)
    return {"signal": -code} if code < 0 else {"exit": code}


def fork(prepared: bytes, pass_on: Callable[[int, str, bytes], None], keep: int, now: float) -> Family:
    """Fork a new child. Only a process with one thread may do this."""
    ours, theirs = socket.socketpair()
    (out, out_end), (err, err_end) = os.pipe(), os.pipe()
    shared, parent = mmap(-1, 2), os.getpid()
    pid = os.fork()
    if pid == 0:
        system.die_with(parent)
        be_child(theirs, (out_end, err_end), shared, Surroundings.from_json(prepared))
    theirs.close()
    os.close(out_end)
    os.close(err_end)
    output = Output((out, err), lambda stream, lines: pass_on(pid, stream, lines), keep)
    return Family(pid, Wire(ours), output, shared, now)


# -- The process above the supervisor, which ends all processes of runs when the supervisor or the worker ends.
#
# A process of a run may leave its group and its parent. Then only an ancestor that adopts orphans can find it. This is
# the supervisor while it lives. When it is killed, the guardian adopts its descendants and ends them. When the guardian
# is killed, the supervisor ends everything itself. Processes survive only if both are killed at once.

WAKING_SIGNALS: Final = (signal.SIGCHLD, signal.SIGHUP)
KILL_TIMEOUT: Final = 10.0  # seconds
KILL_INTERVAL: Final = 0.01


def fork_supervisor(connection: int) -> int:
    """Fork the supervisor and become its guardian. Return only in the supervisor, with the guardian's pid.

    Only the supervisor keeps `connection`.
    """
    worker, guardian = os.getppid(), os.getpid()
    system.adopt_orphans()
    signal.pthread_sigmask(signal.SIG_BLOCK, WAKING_SIGNALS)
    supervisor = os.fork()
    if supervisor == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WAKING_SIGNALS)
        return guardian
    os.close(connection)  # otherwise the worker would not see the end of the supervisor
    system.tell_when_parent_ends(signal.SIGHUP)
    while os.getppid() == worker and os.waitpid(supervisor, os.WNOHANG)[0] == 0:
        signal.sigwait(WAKING_SIGNALS)
    end_all()
    os._exit(0)


def end_all(known: Iterable[int] = ()) -> None:
    """Kill all descendants of this process, repeatedly: they may fork meanwhile.

    `known` are descendants that the caller knows: without /proc, this function cannot find them.
    """
    until = time.monotonic() + KILL_TIMEOUT
    while time.monotonic() < until:
        for pid in (*system.descendants(os.getpid()), *known):
            system.kill(pid)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(KILL_INTERVAL)
