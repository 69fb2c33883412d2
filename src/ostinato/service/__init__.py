"""The service: every command and every question, in plain Python.

The Python API, the command line, the REST API and the dashboard call this package. It checks input, passes the time to
the rules, and calls the store; it runs no tasks itself.
"""

from ostinato.core.read_models import JobFilter
from ostinato.service.metrics import Figures, Gauges, Metrics
from ostinato.service.paging import Page
from ostinato.service.service import Service
from ostinato.service.views import ExecutionView, JobStats, JobView
from ostinato.store.feed import Feed

__all__ = [
    "ExecutionView",
    "Feed",
    "Figures",
    "Gauges",
    "JobFilter",
    "JobStats",
    "JobView",
    "Metrics",
    "Page",
    "Service",
]
