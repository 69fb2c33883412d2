"""The front desk: every command and every question, in plain Python.

Doors (Python API, command line, later REST and dashboard) translate into calls of this room. It checks what comes
in, gives the rules their time, and asks the store; it runs nothing itself.
"""

from ostinato.service.metrics import Figures, Gauges, Metrics
from ostinato.service.paging import Page
from ostinato.service.service import Service
from ostinato.service.views import ExecutionView, JobStats, JobView
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
    "Service",
]
