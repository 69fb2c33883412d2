"""The process above the supervisor, which ends all processes of runs when the supervisor or the worker ends.

A process of a run may leave its group and its parent. Then only an ancestor that adopts orphans can find it. This is
the supervisor while it lives. When it is killed, the guardian adopts its descendants and ends them. When the guardian
is killed, the supervisor ends everything itself. Processes survive only if both are killed at once.
"""

import os
import signal
import time
from collections.abc import Iterable
from typing import Final

from ostinato.isolation import system

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
