"""RQ as the engine: ordinary RQ workers run due jobs; the database stores everything else.

    rq worker default --with-scheduler --serializer json       with OSTINATO_APP=shop:app in its environment

The functions of seed 001 have the same names here. Each run enqueues the next one, so no scheduler process is needed.
"""

from ostinato.rq.functions import (
    dispatch_event,
    execute_scheduled_job,
    recover_scheduled_jobs,
    start_scheduled_job,
    stopped,
    use,
)
from ostinato.rq.worker import Worker

__all__ = [
    "Worker",
    "dispatch_event",
    "execute_scheduled_job",
    "recover_scheduled_jobs",
    "start_scheduled_job",
    "stopped",
    "use",
]
