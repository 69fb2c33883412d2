"""The Python API: `Ostinato` registers tasks, declares jobs, enqueues and runs."""

from ostinato.app.app import Ostinato
from ostinato.app.tasks import AppTask

__all__ = ["AppTask", "Ostinato"]
