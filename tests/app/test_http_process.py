"""The HTTP process, as the engine's process starts and stops it."""

import asyncio
import threading
from types import SimpleNamespace

from ostinato.app.http_process import HttpProcess
from ostinato.app.listening import AppReference, Listening
from ostinato.config import Settings
from ostinato.telemetry.measures import RunTimes, StoreTimes
from ostinato.telemetry.process_metrics import EndedTotals, ProcessMetrics
from ostinato.telemetry.reports import Counts
from tests.waiting import PATIENCE


def test_a_stop_while_the_process_is_being_started_is_no_error(monkeypatch, tmp_path):
    start = HttpProcess._start

    async def main() -> None:
        bound, is_closed = Listening(port=0).bind(Settings()), threading.Event()
        url = f"sqlite:///{tmp_path}/x.db"
        http = HttpProcess(bound, AppReference(None, {"database_url": url}), insecure=False)
        loop = asyncio.get_running_loop()

        def stopped_meanwhile(self, *given):
            loop.call_soon_threadsafe(lambda: (http.stop(), is_closed.set()))
            assert is_closed.wait(PATIENCE)
            return start(self, *given)

        monkeypatch.setattr(HttpProcess, "_start", stopped_meanwhile)
        await asyncio.wait_for(http.start(), PATIENCE)
        assert bound.fileno() == -1
        assert http._process.returncode is not None

    asyncio.run(main())


def test_a_question_is_answered_while_every_thread_of_asyncio_waits(tmp_path):
    """Threads can be busy for seconds with unresolvable names and databases of sources."""

    class Quiet:
        def troubles(self) -> list[str]:
            return []

        def measure(self) -> ProcessMetrics:
            return ProcessMetrics(Counts(), RunTimes(), StoreTimes(), EndedTotals())

    async def main() -> list[bytes]:
        bound = Listening(port=0).bind(Settings())
        http = HttpProcess(bound, AppReference(None, {}), insecure=False)
        release, sent = threading.Event(), list[bytes]()
        waiting = [asyncio.to_thread(release.wait) for _ in range(100)]
        held = asyncio.gather(*waiting)
        await asyncio.sleep(0)
        http._engine, http._writer = Quiet(), SimpleNamespace(write=sent.append)
        http._answer()
        release.set()
        await held
        bound.close()
        return sent

    (answer,) = asyncio.run(main())
    assert b'"troubles": []' in answer
