"""Calls of running tasks to the features of their worker."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Final

from ostinato.core.errors import Invalid, LeaseLost, StoreUnavailable
from ostinato.core.model import Live
from ostinato.engine.lease import Lease
from ostinato.store.kernel import Kernel, TaskCall
from ostinato.task import CallReply

AGAIN: Final = 0.5  # seconds until a call is repeated while the database is unavailable
REFUSED: Final = "This run no longer holds its execution: nothing was saved."


@dataclass(frozen=True, slots=True)
class TaskCalls:
    """The calls that the runs of one worker make."""

    kernel: Kernel
    lease: Lease

    def answer(self, live: Live, name: str, request: Any) -> CallReply:
        """Answer a call on the thread of its run; raise LeaseLost if the run may no longer write."""
        if _is_on_a_loop():
            raise Invalid(f"The call {name} waits for the database: make it on a thread.")
        call: TaskCall = self.kernel.store.database.features.call(name)
        while self.lease.trusted:
            try:
                reply = call.answer(self.kernel, live, request)
            except StoreUnavailable:
                if not call.repeats:
                    raise
                time.sleep(AGAIN)
            else:
                if reply is None:
                    break
                return reply
        raise LeaseLost(REFUSED)


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
