"""The task. It runs in a process of its own, and asks its worker to write."""

import os
from typing import Any

from ostinato.core.policy import Isolation
from ostinato.task import Context, Task


def send_parcel(ctx: Context, address: str) -> dict[str, Any]:
    ctx.call("acme_parcels.record", {"address": address})
    return {"sent_to": address, "pid": os.getpid()}


TASKS = {"send_parcel": Task(send_parcel, isolation=Isolation.PROCESS)}
