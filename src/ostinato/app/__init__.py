"""The Python API: `Ostinato` registers tasks, declares jobs, enqueues and runs."""

from ostinato.app.app import Ostinato
from ostinato.app.tasks import AppTask
from ostinato.service.handle import Handle, RunFailed

__all__ = ["AppTask", "Handle", "Ostinato", "RunFailed"]
