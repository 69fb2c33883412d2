"""The process above the supervisor. It has nothing to do but to see whether that, and the worker, are still there.

What a run starts may leave its group and its parent; only an ancestor that adopts orphans can find it. While the
supervisor lives, it is that one. When it is killed, all that it had becomes the guardian's, which ends it. When the
guardian is killed, the supervisor notices and ends everything itself: whoever is killed, the other one cleans up.
"""

import os
import signal
import time
from collections.abc import Iterable
from typing import Final

from ostinato.isolation import system

WAKES: Final = (signal.SIGCHLD, signal.SIGHUP)
LAST_EFFORT: Final = 10.0  # seconds
AGAIN: Final = 0.01


def stand_guard(connection: int) -> int:
    """Go on in a new process, whose guardian this one becomes; its pid. `connection` is for the new one alone."""
    worker, guardian = os.getppid(), os.getpid()
    system.adopt_orphans()
    signal.pthread_sigmask(signal.SIG_BLOCK, WAKES)
    supervisor = os.fork()
    if supervisor == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WAKES)
        return guardian
    os.close(connection)  # or the worker would not see that the supervisor is gone
    system.tell_when_parent_ends(signal.SIGHUP)
    while os.getppid() == worker and os.waitpid(supervisor, os.WNOHANG)[0] == 0:
        signal.sigwait(WAKES)
    end_all()
    os._exit(0)


def end_all(known: Iterable[int] = ()) -> None:
    """Kill what descends from this process, again and again: it may fork meanwhile.

    `known` are descendants that are known anyway: not everywhere can one look for them.
    """
    until = time.monotonic() + LAST_EFFORT
    while time.monotonic() < until:
        for pid in (*system.descendants(os.getpid()), *known):
            system.kill(pid)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(AGAIN)
