"""The HTTP process, as the process of the engine starts and stops it."""

import asyncio
import threading

from ostinato.app.http_process import HttpProcess
from ostinato.app.listening import AppReference, Listening
from ostinato.config import Settings
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
