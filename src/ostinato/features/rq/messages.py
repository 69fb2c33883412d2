"""Messages to RQ's workers: sent once, moved when their time changes, sent again when lost."""

import logging
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final
from uuid import UUID

from redis import Redis
from redis.exceptions import RedisError
from rq import Callback, Queue
from rq.command import send_stop_job_command
from rq.exceptions import DuplicateJobError, InvalidJobOperation, NoSuchJobError
from rq.job import Job as Entry
from rq.registry import FailedJobRegistry, FinishedJobRegistry, ScheduledJobRegistry
from rq.serializers import JSONSerializer
from rq.utils import utcparse

from ostinato.clock import Clock
from ostinato.core.errors import StoreError
from ostinato.core.model import FIRST_ID
from ostinato.core.payload import LogMessage
from ostinato.features.rq.rules import Deed, Message, SeenMessage, deed, second_of, to_stop, wanted
from ostinato.features.rq.taking import Taking
from ostinato.store.store import Store

log = logging.getLogger("ostinato.rq")

EXECUTE: Final = "ostinato.rq.execute_scheduled_job"
STOPPED: Final = "ostinato.rq.stopped"
BATCH: Final = 500  # jobs read at once
FEW: Final = 20  # messages searched one by one; for more, the whole queue is read
FAILED_FOR: Final = int(timedelta(days=1).total_seconds())  # RQ would store failed jobs for a year
REDIS_PAUSE: Final = 5.0  # seconds without calls after a commit while Redis is unavailable
DELIVER_AGAIN_AFTER: Final = 5  # seconds until the next delivery of a message that could not be executed
ENCODING: Final = "utf-8"


class RqMessages:
    """Synchronisation of Redis with the database. It is thread-safe."""

    def __init__(self, store: Store, clock: Clock, connection: Redis) -> None:
        self._taking, self._clock, self.connection = store.part(Taking), clock, connection
        self.mine: Entry | None = None  # the message that this process is executing
        self._away_until = 0.0
        self.is_away = False

    # -- public

    def on_change(self, job_ids: Collection[UUID]) -> None:
        """Send committed changes of these jobs to Redis. Do not wait while it is unavailable."""
        if time.monotonic() < self._away_until:
            return
        try:
            self.sync(job_ids)
        except StoreError as error:
            log.warning(
                LogMessage("Messages not sent to RQ; recovery will send them", {"jobs": len(job_ids), "error": error})
            )
        except RedisError as error:
            self.away(error)

    def keep_up(self) -> None:
        """Recover missing messages. The engine calls it regularly."""
        try:
            missing = self.recover()
        except RedisError as error:
            self.away(error)
            return
        if missing and not self.is_away:
            log.info(LogMessage("Lost messages sent to RQ again", {"messages": missing}))
        self.back()

    def away(self, error: RedisError) -> None:
        """Note that Redis does not answer; one log line until it does."""
        self._away_until = time.monotonic() + REDIS_PAUSE
        if not self.is_away:
            self.is_away = True
            log.error(LogMessage("Redis unavailable; no run starts until it is available", {"error": error}))

    def back(self) -> None:
        """Note that Redis answers; a log line if it was unavailable."""
        if self.is_away:
            self.is_away = False
            log.info("Redis available again")

    def sync(self, job_ids: Collection[UUID]) -> int:
        """Synchronise Redis for these jobs; return the number of missing messages."""
        closed, count = self._taking.closed_queues(), 0
        for batch in _in_batches(job_ids):
            found = self._taking.present(batch)
            messages = [
                message
                for each in found.values()
                if each.job is not None
                for message in wanted(each.job, each.lives, closed)
            ]
            count += self._send(messages, found.keys())
            self._stop(execution for each in found.values() for execution in to_stop(each.lives))
        return count

    def recover(self) -> int:
        """Send all messages that Redis should have and has not; return their number."""
        after, count = FIRST_ID, 0
        while ids := self._taking.jobs_awaited(after, BATCH):
            count += self.sync(ids)
            after = ids[-1]
        return count

    # -- sending

    def _send(self, messages: Sequence[Message], about: Collection[UUID]) -> int:
        now = self._clock.now()
        others = [message for message in messages if self.mine is None or message.id != self.mine.id]
        missing = 0
        for message, seen in zip(others, self._seen(others), strict=True):
            match deed(message, seen, now):
                case Deed.PUT:
                    missing += self._put(message, seen, now)
                case Deed.PUSH:
                    missing += self._push(message)
                case Deed.MOVE:
                    second = second_of(message.at)
                    self.connection.zadd(_scheduled(message.queue), {message.id: second}, xx=True)
        self._sync_mine(messages, about)
        return missing

    def _seen(self, messages: Sequence[Message]) -> list[SeenMessage]:
        if not messages:
            return []
        pipe = self.connection.pipeline(transaction=False)
        for message in messages:
            pipe.hmget(Entry.key_for(message.id), "status", "started_at")
            pipe.zscore(_scheduled(message.queue), message.id)
        answers = pipe.execute()
        found = [
            SeenMessage(_text(status), _instant(started_at), None if score is None else int(score))
            for (status, started_at), score in zip(answers[::2], answers[1::2], strict=True)
        ]
        doubtful = [
            message.id
            for message, seen in zip(messages, found, strict=True)
            if seen.status == "queued" and seen.second is None
        ]
        in_line = self._in_line({message.id: message.queue for message in messages if message.id in doubtful})
        begun = self._begun([each for each in doubtful if each not in in_line])
        return [
            begun.get(message.id, seen._replace(in_line=message.id in in_line))
            for message, seen in zip(messages, found, strict=True)
        ]

    def _in_line(self, ids: dict[str, str]) -> set[str]:
        """Return the messages that are in their queue, or just taken by a worker."""
        if len(ids) > FEW:
            queues = [self._queue(name) for name in set(ids.values())]
            return {each for one in queues for each in (*one.get_job_ids(), *one.intermediate_queue.get_job_ids())}
        pipe = self.connection.pipeline(transaction=False)
        for message_id, name in ids.items():
            pipe.lpos(self._queue(name).key, message_id)
            pipe.lpos(self._queue(name).intermediate_queue_key, message_id)
        places = pipe.execute() if ids else []
        there = [(one, other) != (None, None) for one, other in zip(places[::2], places[1::2], strict=True)]
        return {message_id for message_id, is_there in zip(ids, there, strict=True) if is_there}

    def _begun(self, ids: Sequence[str]) -> dict[str, SeenMessage]:
        """Return the messages that have begun since the first check, and so were in no queue.

        A second delivery would remove the data that a stop of the first needs.
        """
        pipe = self.connection.pipeline(transaction=False)
        for message_id in ids:
            pipe.hmget(Entry.key_for(message_id), "status", "started_at")
        answers = pipe.execute() if ids else []
        seen = {each: SeenMessage(_text(a), _instant(b)) for each, (a, b) in zip(ids, answers, strict=True)}
        return {each: one for each, one in seen.items() if one.status == "started"}

    def _put(self, message: Message, seen: SeenMessage, now: datetime) -> bool:
        """Send a missing message; remove the data of an earlier one first."""
        if seen.status is not None:
            self._remove(message)
        queue, entry = self._queue(message.queue), self._entry(message)
        try:
            if message.at <= now:
                queue.enqueue_job(entry, at_front=message.urgent, unique=True)
            else:
                queue.schedule_job(entry, _at_second(message.at), unique=True)
        except DuplicateJobError:
            return False  # another process was quicker
        return True

    def _push(self, message: Message) -> bool:
        """Enqueue a due message that RQ's scheduler has not moved. The process that removes it enqueues it."""
        if not self.connection.zrem(_scheduled(message.queue), message.id):
            return False
        entry = self._entry(message)
        self._queue(message.queue).enqueue_job(entry, at_front=message.urgent)
        return True

    def _remove(self, message: Message) -> None:
        pipe = self.connection.pipeline()
        pipe.delete(Entry.key_for(message.id))
        for kind in (FailedJobRegistry, FinishedJobRegistry):
            pipe.zrem(kind(message.queue, connection=self.connection).key, message.id)
        pipe.execute()

    # -- the message that this process executes

    def _sync_mine(self, messages: Sequence[Message], about: Collection[UUID]) -> None:
        """Let this process's message end, or be delivered again; then RQ must keep its data."""
        mine = self.mine
        if mine is None or UUID(str(mine.args[0])) not in about:
            return
        again = next((message for message in messages if message.id == mine.id), None)
        if again is None:
            mine.result_ttl = 0
            self.connection.zrem(_scheduled(mine.origin), mine.id)
            return
        if again.at <= self._clock.now():  # it could not be claimed yet
            self.come_back_later()
        else:
            self._deliver_again(second_of(again.at))

    def come_back_later(self) -> None:
        """Let RQ deliver this process's message again after a while."""
        self._deliver_again(int(time.time()) + DELIVER_AGAIN_AFTER)

    def _deliver_again(self, second: int) -> None:
        assert self.mine is not None
        now = int(time.time())
        second = max(second, now + 1)
        self.mine.result_ttl = second - now + FAILED_FOR
        self.connection.zadd(_scheduled(self.mine.origin), {self.mine.id: second})

    # -- stopping

    def _stop(self, ids: Iterable[str]) -> None:
        """Stop runs through RQ. If RQ cannot, the run itself checks every second whether it should stop."""
        for message_id in ids:
            try:
                send_stop_job_command(self.connection, message_id, serializer=JSONSerializer)
            except (NoSuchJobError, InvalidJobOperation):
                continue

    # -- RQ's objects

    def _queue(self, name: str) -> Queue:
        return Queue(name, connection=self.connection, serializer=JSONSerializer)

    def _entry(self, message: Message) -> Entry:
        return self._queue(message.queue).create_job(
            EXECUTE,
            args=(str(message.job_id),),
            job_id=message.id,
            timeout=-1,  # Ostinato has its own timeouts, retries and results
            result_ttl=0,
            failure_ttl=FAILED_FOR,
            description=message.id,
            on_stopped=Callback(STOPPED),
        )


def connect(url: str) -> Redis:
    """Return a Redis by its URL; the first command opens the connection."""
    return Redis.from_url(url, socket_timeout=10, socket_connect_timeout=2, health_check_interval=30)


def _scheduled(queue: str) -> str:
    return ScheduledJobRegistry.key_template.format(queue)


def _at_second(at: datetime) -> datetime:
    return datetime.fromtimestamp(second_of(at), UTC)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(ENCODING)


def _instant(value: bytes | None) -> datetime | None:
    found = utcparse(value.decode(ENCODING)) if value else None
    return None if found is None else found if found.tzinfo else found.replace(tzinfo=UTC)


def _in_batches(ids: Collection[UUID]) -> Iterator[list[UUID]]:
    rest = iter(sorted(ids))
    while batch := list(islice(rest, BATCH)):
        yield batch
