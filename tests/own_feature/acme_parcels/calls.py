"""What the task asks of its worker: `ctx.call("acme_parcels.record", …)`."""

from typing import Any

from acme_parcels.rows import Parcels
from ostinato.core.model import Live
from ostinato.store.kernel import Kernel, TaskCall
from ostinato.task import CallReply


def record(kernel: Kernel, live: Live, request: Any) -> CallReply | None:
    done = kernel.part(Parcels).record(live, request["address"], kernel.clock.now())
    return CallReply(True) if done else None


CALLS = {"record": TaskCall(record, repeats=True)}
