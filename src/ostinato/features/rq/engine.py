"""The engine `rq`: messages to RQ's workers, and the processes of `ostinato worker --engine rq`."""

import json
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Final

from ostinato.clock import Clock
from ostinato.config import Settings
from ostinato.core.payload import LogMessage
from ostinato.features.rq.messages import RqMessages, connect
from ostinato.store.store import Store

# -- RQ workers in child processes, for `ostinato worker --engine rq`.
#
# They are ordinary RQ workers. The parent replaces a worker that ends. When the parent ends for any reason, the workers
# finish their runs and end too.

log = logging.getLogger("ostinato.rq")

LOOK_EVERY: Final = 1.0  # seconds
RESTART_AFTER: Final = 5.0  # seconds between restarts of a worker that cannot start
KILL_AFTER: Final = 5.0  # seconds to end after a request to stop at once


class _Crew:
    """Context manager for a number of RQ workers."""

    def __init__(self, where: str | None, chosen: Mapping[str, object], size: int, grace: float) -> None:
        """`where`: the app; `chosen`: settings that override its own; `grace`: seconds for running runs at the end."""
        self._order = json.dumps({"app": where, "chosen": {k: v for k, v in chosen.items() if v is not None}})
        self._size, self._grace = size, grace
        self._members: list[subprocess.Popen[str]] = []
        self._over = threading.Event()
        self._watching = threading.Thread(target=self._watch, name="ostinato-crew", daemon=True)

    def __enter__(self) -> "_Crew":
        self._members = [self._start() for _ in range(self._size)]
        self._watching.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._watching.join()
        self._terminate_all()
        if not self._all_ended(self._grace):
            self._terminate_all()  # RQ stops at once after a second signal
            self._all_ended(KILL_AFTER)
        for each in self._members:
            if each.poll() is None:
                each.kill()

    def _start(self) -> "subprocess.Popen[str]":
        started = subprocess.Popen(
            [sys.executable, "-m", "ostinato.rq"], stdin=subprocess.PIPE, text=True, start_new_session=True
        )
        assert started.stdin is not None
        try:
            started.stdin.write(self._order)  # not as arguments: a URL may have a password
            started.stdin.close()
        except BrokenPipeError:
            pass  # the worker has ended already; `_watch` logs it
        return started

    def _watch(self) -> None:
        while not self._over.wait(LOOK_EVERY):
            for place, each in enumerate(self._members):
                if each.poll() is not None:
                    log.warning(LogMessage("An RQ worker has ended; another is started", {"code": each.returncode}))
                    if self._over.wait(RESTART_AFTER):
                        return
                    self._members[place] = self._start()

    def _terminate_all(self) -> None:
        for each in self._members:
            if each.poll() is None:
                each.send_signal(signal.SIGTERM)

    def _all_ended(self, seconds: float) -> bool:
        try:
            for each in self._members:
                each.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True


# -- The engine `rq`: messages to RQ's workers, and the processes of `ostinato worker --engine rq`


def messenger(store: Store, clock: Clock, settings: Settings) -> RqMessages:
    """Return the messages to RQ's workers; from now on, the changes of this process are sent to Redis."""
    messages = RqMessages(store, clock, connect(settings.redis_url.reveal()))
    store.database.on_change = messages.on_change
    return messages


def workers(where: str | None, chosen: Mapping[str, object], settings: Settings) -> _Crew:
    """Return processes of RQ workers, one for each concurrent run."""
    return _Crew(where, chosen, settings.concurrency, settings.shutdown_grace.total_seconds())
