"""RQ's worker, as ours: the app is imported once and not for each message, and a killed run is known at once."""

import os
from typing import Any

import rq
from rq.job import Job as Entry
from rq.serializers import JSONSerializer


class Worker(rq.Worker):
    """For `rq worker -w ostinato.rq.Worker` and `ostinato worker --engine rq`. Its messages are JSON, never pickles."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        named["serializer"] = JSONSerializer
        super().__init__(*arguments, **named)

    def work(self, *arguments: Any, **named: Any) -> bool:
        from ostinato.engine.untiring import until_available
        from ostinato.rq.functions import the_office

        until_available(lambda: the_office(self.connection).courier.keep_up())
        return super().work(*arguments, **named)

    def handle_work_horse_killed(
        self, job: Entry, retpid: int | None, ret_val: int | None, rusage: object
    ) -> None:
        from ostinato.rq.functions import the_office

        killed = ret_val is not None and os.WIFSIGNALED(ret_val)
        how = f"signal {os.WTERMSIG(ret_val or 0)}" if killed else f"exit code {ret_val}"
        the_office(self.connection).end_killed(job, how)
