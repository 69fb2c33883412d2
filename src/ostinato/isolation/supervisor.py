"""The process between a worker and its children: it forks them, gives them runs, and ends them.

    python -m ostinato.isolation.supervisor FD PLAN

FD is a socket to the worker; when it breaks, the supervisor kills all its processes. Its guardian does so when the
supervisor itself is killed. The supervisor has one thread and runs no code of users, so that it can fork safely. It
reports a run as ended in two cases: its result has arrived and none of its processes is left, or its child and all
descendants have ended.
"""

import gc
import os
import signal
import socket
import sys
import time
from collections import deque
from functools import partial
from resource import struct_rusage
from typing import Final

from ostinato.isolation import system
from ostinato.isolation.children import ChildRun, ChildState, Family, end_all, fork, fork_supervisor, how_it_ended
from ostinato.isolation.frames import EventSelector, Frame, Head, Wire
from ostinato.isolation.plan import ProcessPlan

CHECK_EVERY: Final = 0.1  # seconds between checks of limits and of stopping runs
ORPHANS_EVERY: Final = 0.01
IDLE_TIMEOUT: Final = 60.0  # for every child but the last idle one
IMPORT_TIMEOUT: Final = 60.0
LEAVE_TIMEOUT: Final = 5.0
MOST_UNSENT: Final = 1024 * 1024  # bytes for the worker; above this, output stays in the pipes


class _Supervisor:
    """Supervisor for one worker. `step` does all work."""

    def __init__(self, worker: Wire, plan: ProcessPlan) -> None:
        self._worker, self._plan = worker, plan
        self._prepared = b""
        self._waiting = deque[ChildRun]()
        self._families = dict[int, Family]()  # by the pid of the child
        self._idle = list[Family]()  # the one used last is at the end
        self._ending = list[Family]()  # dead; their orphans may still run
        self._selector = EventSelector(self._reap_all)
        self._selector.listen(worker, self._on_worker)
        self._check_at = 0.0  # when to check deadlines and limits
        self._output_paused = False

    def run(self) -> None:
        """Work until the worker closes the connection, then end all processes."""
        while not self._worker.closed:
            self.step()
        end_all(self._families)

    def step(self) -> None:
        wait = ORPHANS_EVERY if self._ending else max(self._check_at - time.monotonic(), 0)
        self._selector.wait(wait if self._families else None)
        if time.monotonic() >= self._check_at:
            self._check()
        if self._ending:
            self._finish_endings()
        self._assign()
        self._pause_output()

    # -- the worker

    def _on_worker(self) -> None:
        for head, body in self._worker.receive():
            match head["do"]:
                case "prepare":
                    self._prepared = body
                case "run":
                    self._waiting.append(ChildRun(head["run"], body, head.get("limits", {})))
                case "stop":
                    self._stop(head["run"], head["grace"])
                case "answer":
                    self._answer(head, body)
                case "dismiss":
                    for family in list(self._idle):
                        self._dismiss(family)

    def _send(self, head: Head, body: bytes = b"") -> None:
        self._worker.send(head, body)
        self._selector.send_later(self._worker)

    def _stop(self, run_id: int, grace: float) -> None:
        """Stop a run. A second request may shorten the grace. An ended run is ignored: it is reported already."""
        waiting = next((run for run in self._waiting if run.id == run_id), None)
        if waiting is not None:
            self._waiting.remove(waiting)
            self._send({"ev": "ended", "run": run_id, "stopped": "terminated"})
            return
        family = self._family_of(run_id)
        if family is None or family.run is None or family.state is not ChildState.BUSY:
            return
        first, until = family.run.kill_at is None, time.monotonic() + grace
        family.run.kill_at = until if family.run.kill_at is None else min(until, family.run.kill_at)
        if first and family.run.limit is None:
            family.terminate()
        self._check_by(min(until, time.monotonic() + CHECK_EVERY))

    def _answer(self, head: Head, body: bytes) -> None:
        family = self._family_of(head["run"])
        if family is not None and family.state is ChildState.BUSY:
            family.wire.send(head, body)
            self._selector.send_later(family.wire)

    def _family_of(self, run_id: int) -> Family | None:
        return next((each for each in self._families.values() if each.run and each.run.id == run_id), None)

    # -- children

    def _assign(self) -> None:
        while self._waiting and self._idle:
            family = self._idle.pop()
            self._reap(family.pid)  # the child may have been killed meanwhile
            if family.state is ChildState.IDLE:
                run = self._waiting.popleft()
                family.begin(run)
                self._selector.send_later(family.wire)
                if run.limits:
                    self._check_by(time.monotonic() + CHECK_EVERY)
        preparing = sum(each.state is ChildState.PREPARING for each in self._families.values()) if self._waiting else 0
        while len(self._waiting) > preparing and self._usable_children < self._plan.size:
            if not self._fork():
                return
            preparing += 1

    @property
    def _usable_children(self) -> int:
        return sum(each.state not in (ChildState.LEAVING, ChildState.DEAD) for each in self._families.values())

    def _fork(self) -> bool:
        now = time.monotonic()
        try:
            family = fork(self._prepared, self._pass_on, self._plan.keep_output, now)
        except OSError as error:
            if not self._usable_children:
                self._fail_waiting({"why": f"no process could be started: {error.strerror}"})
            return False
        self._families[family.pid] = family
        if not self._output_paused:
            self._listen_to(family)
        self._send({"ev": "born", "pid": family.pid})
        self._check_by(now + IMPORT_TIMEOUT)
        return True

    def _on_output(self, family: Family, pipe: int) -> None:
        family.output.read(pipe)
        if not family.output.is_open(pipe):
            self._selector.forget(pipe)
        if family.run and family.output.written > family.run.limits.get("output", float("inf")):
            self._exceed(family, "OutputLimit")

    def _on_child(self, family: Family) -> None:
        for frame in family.wire.receive():
            self._on_frame(family, frame)
        if family.wire.closed:
            self._selector.forget(family.wire)

    def _on_frame(self, family: Family, frame: Frame) -> None:
        match frame.head["ev"]:
            case "ready":
                family.total = frame.head["total"]
                self._rest(family)
            case "ended" if family.run is not None:
                self._returned(family, family.run, frame)
            case _:
                run_id = None if family.run is None else family.run.id
                self._send(frame.head | {"run": run_id}, frame.body)

    def _returned(self, family: Family, run: ChildRun, frame: Frame) -> None:
        run.ended, run.outcome = frame.head, frame.body
        family.total = frame.head["total"]
        if run.kill_at is not None:
            run.stopped = run.stopped or "terminated"
            self._check_by(time.monotonic())
        elif frame.head["left"]:
            family.kill()  # its processes must end before the run is reported
        else:
            self._report(family, run)
            family.run = None
            self._recycle_or_rest(family, frame.head)

    def _report(self, family: Family, run: ChildRun) -> None:
        if family.output.drain() > run.limits.get("output", float("inf")):
            run.limit = run.limit or "OutputLimit"
        self._send(family.report(), run.outcome)

    def _recycle_or_rest(self, family: Family, ended: Head) -> None:
        family.runs += 1
        family.first_memory = family.first_memory or ended["memory"]
        grown = ended["memory"] - family.first_memory > self._plan.recycle_memory_mb * system.MB
        if grown or ended["tired"] or family.runs >= self._plan.recycle_runs:
            self._dismiss(family)
        else:
            self._rest(family)

    def _rest(self, family: Family) -> None:
        family.state, family.since = ChildState.IDLE, time.monotonic()
        self._idle.append(family)

    def _dismiss(self, family: Family) -> None:
        """Let an idle child end."""
        family.state, family.since = ChildState.LEAVING, time.monotonic()
        if family in self._idle:
            self._idle.remove(family)
        self._selector.forget(family.wire)
        family.wire.close()
        self._check_by(family.since + LEAVE_TIMEOUT)

    def _pass_on(self, pid: int, stream: str, lines: bytes) -> None:
        family = self._families.get(pid)
        run_id = None if family is None or family.run is None else family.run.id
        self._send({"ev": "out", "run": run_id, "stream": stream, "at": time.time()}, lines)

    # -- the end of processes

    def _reap_all(self) -> None:
        while self._reap(-1):
            pass

    def _reap(self, pid: int) -> bool:
        try:
            gone, status, used = os.wait4(pid, os.WNOHANG)
        except ChildProcessError:
            return False
        if gone == 0:
            return False
        family = self._families.get(gone)
        if family is None:
            self._orphan_died(gone, used)
        else:
            self._died(family, status, used)
        return True

    def _died(self, family: Family, status: int, used: struct_rusage) -> None:
        self._read_to_end(family)
        was = family.state
        if (run := family.take_back()) is not None:
            self._waiting.appendleft(run)
        family.died(status, used)
        if family in self._idle:
            self._idle.remove(family)
        if was is ChildState.PREPARING:
            self._fail_waiting(how_it_ended(status) | {"why": "while its code was imported"})
        self._ending.append(family)

    def _read_to_end(self, family: Family) -> None:
        family.wire.idle = family.wire.closed
        while not family.wire.idle:
            self._on_child(family)

    def _orphan_died(self, pid: int, used: struct_rusage) -> None:
        """Add the usage of a dead child to the run that had it, or to the only possible one."""
        owners = [each for each in self._ending if pid in each.relatives] or self._ending
        if len(owners) == 1:
            owners[0].count(used)

    def _finish_endings(self) -> None:
        """Kill the orphans of dead children; report their runs once no orphan is left."""
        if system.HAS_PROC:
            orphans = set(system.children_of(os.getpid())) - {
                pid for pid, each in self._families.items() if each.state is not ChildState.DEAD
            }
            for pid in orphans:
                system.kill(pid)
            if orphans:
                return
        ended, self._ending = self._ending, []
        for family in ended:
            if not system.HAS_PROC and system.group_lives(family.pid):
                system.kill(family.pid)
                self._ending.append(family)
            else:
                self._remove(family)

    def _remove(self, family: Family) -> None:
        if family.run is not None:
            self._report(family, family.run)
        family.output.drain()
        for each in (family.wire, *family.output.pipes):
            self._selector.forget(each)
        family.wire.close()
        family.output.close()
        del self._families[family.pid]
        self._send({"ev": "gone", "pid": family.pid})

    def _fail_waiting(self, how: Head) -> None:
        """Fail one waiting run after no child could start; otherwise it would be tried for ever."""
        if self._waiting:
            self._send({"ev": "ended", "run": self._waiting.popleft().id} | how)

    # -- deadlines and limits

    def _check_by(self, at: float) -> None:
        self._check_at = min(self._check_at, at)

    def _check(self) -> None:
        now = time.monotonic()
        self._check_at = now + IDLE_TIMEOUT
        for family in list(self._families.values()):
            self._check_family(family, now)

    def _check_family(self, family: Family, now: float) -> None:
        run = family.run
        match family.state:
            case ChildState.BUSY if run is not None and run.kill_at is not None:
                self._enforce_stop(family, run, run.kill_at, now)
            case ChildState.BUSY if run is not None and run.limits and run.limit is None:
                if (limit := family.exceeded()) is not None:
                    self._exceed(family, limit)
                self._check_by(now + CHECK_EVERY)
            case ChildState.PREPARING | ChildState.LEAVING:
                until = family.since + (IMPORT_TIMEOUT if family.state is ChildState.PREPARING else LEAVE_TIMEOUT)
                if now >= until:
                    family.kill()
                else:
                    self._check_by(until)
            case ChildState.IDLE if now >= family.since + IDLE_TIMEOUT and len(self._idle) > 1:
                self._dismiss(family)

    def _enforce_stop(self, family: Family, run: ChildRun, kill_at: float, now: float) -> None:
        """Kill a stopping run once its grace is over, or once it has returned and left no process."""
        if now >= kill_at:
            run.stopped = "killed"
            family.kill()
        elif run.ended is not None and not family.has_descendants:
            family.kill()
        else:
            self._check_by(min(kill_at, now + CHECK_EVERY))

    def _exceed(self, family: Family, limit: str) -> None:
        if family.run is not None and family.run.limit is None:
            family.run.limit = limit
            family.kill()

    def _pause_output(self) -> None:
        """Stop reading from children while the worker is behind: then they wait in their writes."""
        waits = self._worker.unsent > MOST_UNSENT
        if waits == self._output_paused:
            return
        self._output_paused = waits
        for family in self._families.values():
            self._selector.forget(family.wire)
            for pipe in family.output.pipes:
                self._selector.forget(pipe)
            if not waits:
                self._listen_to(family)

    def _listen_to(self, family: Family) -> None:
        if not family.wire.closed:
            self._selector.listen(family.wire, partial(self._on_child, family))
            self._selector.send_later(family.wire)
        for pipe in filter(family.output.is_open, family.output.pipes):
            self._selector.listen(pipe, partial(self._on_output, family, pipe))


def _close_at_end_of(parent: int, wire: Wire) -> None:
    """Close the connection when the parent ends, even if another process keeps its end of the socket open."""

    def on_signal(*_: object) -> None:
        wire.closed = wire.closed or os.getppid() != parent

    signal.signal(signal.SIGHUP, on_signal)
    system.tell_when_parent_ends(signal.SIGHUP)
    on_signal()  # the parent may have ended before


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):  # only the worker stops runs
        signal.signal(number, signal.SIG_IGN)
    gc.collect()
    gc.freeze()  # guardian and children share these pages until one of them writes
    connection = int(sys.argv[1])
    parent = fork_supervisor(connection) if system.HAS_PROC else os.getppid()
    plan = ProcessPlan.from_json(sys.argv[2])
    system.adopt_orphans()
    wire = Wire(socket.socket(fileno=connection))
    _close_at_end_of(parent, wire)
    wire.send({"ev": "up", "pid": os.getpid()})
    _Supervisor(wire, plan).run()


if __name__ == "__main__":
    main()
