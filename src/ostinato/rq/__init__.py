"""RQ as the engine: ordinary RQ workers run what is due, the database keeps everything else.

    rq worker default --with-scheduler --serializer json       with OSTINATO_APP=shop:app in its environment

The functions of seed 001 are here under their names. Each run enqueues the next by itself: no scheduler has to live.
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
