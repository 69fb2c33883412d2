"""Ostinato's RQ worker: it imports the app once, not for each message, and settles a killed run at once.

It writes one log line while Redis is unavailable. RQ itself would log each try, with tracebacks.
"""

import logging
import os
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final

import rq
from redis.exceptions import RedisError
from rq.job import Job as Entry
from rq.scheduler import RQScheduler
from rq.serializers import JSONSerializer

from ostinato.engine.duties import until_available
from ostinato.features.rq.messages import RqMessages
from ostinato.features.rq.run import RqEngine
from ostinato.handle import RunFailed

LOOK_EVERY: Final = 1.0  # seconds between checks of Redis


def wait_for_redis(engine: Callable[[], RqEngine]) -> RqMessages:
    """Wait until the database and Redis answer; then enqueue missing messages."""
    messages = until_available(lambda: engine().messages)
    until_available(messages.keep_up)
    while messages.is_away:
        time.sleep(LOOK_EVERY)
        until_available(messages.keep_up)
    return messages


class RqWorker(rq.Worker):
    """RQ's worker with messages in JSON; `engine` returns the engine of this process."""

    _is_logged = False

    @abstractmethod
    def engine(self) -> RqEngine: ...

    def __init__(self, *arguments: Any, **named: Any) -> None:
        named["serializer"] = JSONSerializer
        super().__init__(*arguments, **named)

    def work(self, *arguments: Any, **named: Any) -> bool:
        messages = wait_for_redis(self.engine)
        self.log.addFilter(self._is_shown)
        try:
            return super().work(*arguments, **named)
        except RedisError as error:  # while it unregisters from Redis
            messages.away(error)
            return False
        finally:
            self.log.removeFilter(self._is_shown)

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        super().heartbeat(timeout, pipeline)
        if pipeline is None:  # with a pipeline, Redis has not answered yet
            self.engine().messages.back()

    def handle_exception(self, job: Entry, *exc_info: Any) -> None:
        """Call RQ's exception handlers, and log; a failed run has its log line already."""
        if isinstance(exc_info[1], RedisError):
            self.engine().messages.away(exc_info[1])
            return
        self._is_logged = isinstance(exc_info[1], RunFailed)
        super().handle_exception(job, *exc_info)
        self._is_logged = False

    def handle_work_horse_killed(self, job: Entry, retpid: int | None, ret_val: int | None, rusage: object) -> None:
        killed = ret_val is not None and os.WIFSIGNALED(ret_val)
        how = f"signal {os.WTERMSIG(ret_val or 0)}" if killed else f"exit code {ret_val}"
        self.engine().end_killed(job, how)

    def _start_scheduler(
        self, burst: bool = False, logging_level: str | None = "INFO", *formats: Any, **named: Any
    ) -> None:
        """Start RQ's scheduler as RQ does, but with one that waits for Redis."""
        if burst:
            super()._start_scheduler(burst, logging_level, *formats, **named)
            return
        level = self.log.level if logging_level is None else logging_level
        self.scheduler = _WaitingScheduler(
            self.queues, connection=self.connection, logging_level=level, serializer=self.serializer
        )
        if self.scheduler.acquire_locks():  # type: ignore[no-untyped-call]
            self.scheduler.start()  # type: ignore[no-untyped-call]

    def _is_shown(self, record: logging.LogRecord) -> bool:
        """Return False for RQ's records about an unavailable Redis or a failed run: Ostinato logs these itself."""
        said = record.args if isinstance(record.args, tuple) else ()
        raised = record.exc_info[1] if record.exc_info else None
        missed = next((each for each in (raised, *said) if isinstance(each, RedisError)), None)
        if missed is not None:
            self.engine().messages.away(missed)
        return missed is None and not self._is_logged


class _WaitingScheduler(RQScheduler):
    """RQ's scheduler, in a process of its own, which waits while Redis is unavailable. The worker logs that."""

    def work(self) -> None:
        while not self._stop_requested:
            try:
                super().work()  # type: ignore[no-untyped-call]
            except RedisError:
                time.sleep(self.interval)
