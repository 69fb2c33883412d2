"""Ostinato's fetch: a source from its declaration to its completed run, in one process with its worker.

python -m benchmarks.subjects.fetching fetch URL
"""

import asyncio
import json
import sys
import time
from contextlib import suppress

from benchmarks.subjects.memory import Growth
from ostinato import Ostinato

FIELDS = {"id": "integer", "at": "timestamp", "value": "number", "name": "text", "active": "boolean"}


def main() -> None:
    app = Ostinato("bench", allow_private_addresses=True)
    app.source(a_source("warm", sys.argv[2], maxPages=1, onLimit="stop"))
    app.source(a_source("records", sys.argv[2]))
    app.open(upgrade=True)
    print(json.dumps(asyncio.run(fetched(app))))


def a_source(name: str, url: str, **limits: object) -> dict[str, object]:
    return {
        "name": name,
        "url": url,
        "table": name,
        "schedule": "manual",
        "execution": {"timeout": 600},
        "response": {
            "dataPath": "items",
            "fields": [{"source": field, "target": f"its_{field}", "type": kind} for field, kind in FIELDS.items()],
            "unique": ["its_id"],
        },
        "pagination": {"type": "page", "hasMorePath": "more"},
        "limits": {"maxBytes": "10GB", "maxRecords": 10_000_000, "maxPages": 10_000, **limits},
    }


async def fetched(app: Ostinato) -> dict[str, float]:
    async with app.running():
        # One page first, as for dlt, so that imports, connections and query plans are not measured.
        await completed(app, "source:warm")
        growth, began, busy = Growth(), time.monotonic(), time.process_time()
        records = await completed(app, "source:records")
        seconds, cpu = time.monotonic() - began, time.process_time() - busy
        return {
            "seconds": seconds, "records": float(records), "growth_mb": growth.megabytes(),
            "peak_mb": growth.peak(), "cpu": cpu,
        }  # fmt: skip


async def completed(app: Ostinato, key: str) -> int:
    """Run a source and return the number of stored records."""
    loop, rung = asyncio.get_running_loop(), asyncio.Event()
    database = app.parts.store.database
    database.on_change = lambda _: loop.call_soon_threadsafe(rung.set)  # called when its run is settled
    job = await asyncio.to_thread(app.jobs.run, key)
    while not job.facts.completed + job.facts.failed:
        with suppress(TimeoutError):
            await asyncio.wait_for(rung.wait(), 1)
        rung.clear()
        job = await asyncio.to_thread(app.jobs.get, key)
    database.on_change = None
    (run,) = await asyncio.to_thread(lambda: app.executions.list(job=job.id, limit=1))
    assert run.outcome == "completed", run.error
    return run.items_indexed or 0


if __name__ == "__main__":
    main()
