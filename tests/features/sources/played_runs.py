"""Runs of a source without a network, on a real database: a played API, and deaths wherever a test wants them.

A death is an exception before a statement, before or after a commit, or in the middle of a body. What a transaction had
done by then is rolled back, as when the process is killed.
"""

import asyncio
import json
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any

from ostinato.core.builtin import Permits
from ostinato.core.model import Definition
from ostinato.core.schedule import Manual
from ostinato.engine.worker import TaskCalls
from ostinato.features.sources.fetch.run import SourceRun
from ostinato.features.sources.rows import SourceRecords
from ostinato.features.sources.rules import read_source
from ostinato.store.kernel import Kernel
from ostinato.task import Context
from tests.build import SECOND

PAGE = 3  # records


class Killed(BaseException):
    """The process dies here."""


class PlayedRuns:
    """A source, its API (`records`), and its runs one after the other."""

    def __init__(self, world, definition: dict[str, Any]) -> None:
        self.world, self.definition = world, definition
        self.source = read_source(definition)
        self.target = self.source.target
        self.records: list[dict[str, Any]] = []  # of the API
        self.rows = world.store.part(SourceRecords)
        self.steps_left: int | None = None
        self.outgoing, self.permits, self.resources = self, Permits(), None
        world.enqueue()
        (claimed,) = world.claim(world.worker())
        self.job_id = claimed.live.job_id
        kernel = Kernel(world.store, SimpleNamespace(now=world.clock), world.chance)
        self._calls = TaskCalls(kernel, SimpleNamespace(trusted=True))

    def run(self, *deaths: tuple[int, bool], allow_deletions: bool = False, between=lambda: None) -> dict[str, Any]:
        """Run until a run completes; each death is the number of steps before it, and whether the run goes on then.

        A run that does not go on begins anew, after a call of `between`.
        """
        self._next("NULL", attempt=0)
        for steps, goes_on in deaths:
            self.steps_left = steps
            try:
                return self._attempt(allow_deletions)
            except Killed:
                if not goes_on:
                    between()
                self._next("checkpoint", attempt=self.live.attempt + (not goes_on))
        self.steps_left = None
        return self._attempt(allow_deletions)

    @property
    def live(self):
        return self.world.lives(self.job_id)[0]

    def _next(self, checkpoint: str, attempt: int) -> None:
        self.world.sql(
            f"UPDATE {{live}} SET fence = fence + 1, execution_number = execution_number + 1, attempt = :attempt, "
            f"started_at = :at, checkpoint = {checkpoint} WHERE id = :id",
            id=self.live.id, attempt=attempt, at=self.world.advance(60 * SECOND),
        )  # fmt: skip

    def _attempt(self, allow_deletions: bool) -> dict[str, Any]:
        ctx = Context(self.live, Definition("fetch", Manual()), {}, host=self)
        with self._mortal():
            return asyncio.run(SourceRun(ctx, self.definition, allow_deletions).go())

    # -- death

    def tick(self) -> None:
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise Killed

    @contextmanager
    def _mortal(self):
        databases = {self.world.store.database, self.rows.places.of(self.target)}
        for database in databases:
            for name in ("fill", "write"):
                setattr(database, name, self._dying(getattr(database, name)))
        try:
            yield
        finally:
            for database in databases:
                del database.fill, database.write

    def _dying(self, real):
        @contextmanager
        def opened(*args):
            with real(*args) as tx:
                yield _MortalTx(tx, self.tick)
                self.tick()
            self.tick()

        return opened

    # -- the host of the run, and its API

    def call(self, live, name, request):
        return self._calls.answer(live, name, request)

    def report_progress(self, *_):
        pass

    def keep_record(self, *_):
        return True

    @asynccontextmanager
    async def request(self, _method, url, *, params, headers, **_):
        asked = dict(params)
        first, records = int(asked["offset"]), self.answer(asked | headers)
        yield _Reply(url, json.dumps(records[first : first + PAGE]).encode(), self.tick)

    def answer(self, _asked: dict[str, str]) -> list[dict[str, Any]]:
        """Return all records of the API for a request."""
        return self.records

    # -- the table

    def table(self) -> list[dict[str, Any]]:
        return self.rows.newest(self.target, 1000)


class _MortalTx:
    def __init__(self, tx, tick) -> None:
        self._tx, self._tick = tx, tick

    def __getattr__(self, name):
        if name in ("run", "rows", "row", "copy"):
            self._tick()
        return getattr(self._tx, name)


class _Reply:
    hops, status, good, headers = 1, 200, True, {}
    asked = SimpleNamespace(wait=None)

    def __init__(self, url, body, tick) -> None:
        self.url, self._body, self.unpacked, self._tick = url, body, len(body), tick

    async def require_good(self):
        pass

    async def parts(self):
        middle = len(self._body) // 2
        yield self._body[:middle]
        self._tick()
        yield self._body[middle:]

    def bad(self, sentence, _body=b""):
        return AssertionError(sentence)


def a_definition_of(write, table="played", **more):
    """A source of records {id, value, note}; with `database` in another one."""
    staged = any(word in str(write) for word in ("replace", "absent"))
    return {
        "name": "played",
        "url": "https://api.example.org/records",
        "table": table,
        "write": write,
        "response": {
            "fields": [
                {"source": "id", "target": "k", "type": "integer"},
                {"source": "value", "target": "v", "type": "number"},
                {"source": "note"},
            ],
            "primaryKey": ["k"],
        },
        "pagination": {"type": "offset", "limit": PAGE},
        "limits": {"maxDeleted": 1} | ({} if staged else {"maxRejected": 0.5}),
        **more,
    }
