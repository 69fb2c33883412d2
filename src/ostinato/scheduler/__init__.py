"""The front desk: every command and every question, in plain Python.

Doors (Python API, command line, later REST and dashboard) translate into calls of this room. It checks what comes
in, gives the rules their time, and asks the store; it runs nothing itself.
"""

from ostinato.scheduler.desk import Scheduler
from ostinato.scheduler.metrics import Figures, Gauges, Metrics
from ostinato.scheduler.pages import Page
from ostinato.scheduler.views import ExecutionView, JobStats, JobView
from ostinato.store.search import JobFilter

__all__ = [
    "ExecutionView",
    "Figures",
    "Gauges",
    "JobFilter",
    "JobStats",
    "JobView",
    "Metrics",
    "Page",
    "Scheduler",
]
