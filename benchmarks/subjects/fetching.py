"""Ostinato as a fetcher: a source, from its declaration to its completed run, in one process with its worker.

python -m benchmarks.subjects.fetching fetch URL
"""

import asyncio
import json
import sys
import time

from benchmarks.subjects.memory import Growth
from ostinato import Ostinato

FIELDS = {"id": "integer", "at": "timestamp", "value": "number", "name": "text", "active": "boolean"}


def main() -> None:
    app = Ostinato("bench", allow_private_addresses=True)
    app.open(upgrade=True)
    app.source(
        {
            "name": "records",
            "url": sys.argv[2],
            "table": "records",
            "execution": {"timeout": 600},
            "response": {
                "dataPath": "items",
                "fields": [
                    {"source": name, "target": f"its_{name}", "type": kind} for name, kind in FIELDS.items()
                ],
                "unique": ["its_id"],
            },
            "pagination": {"type": "page", "hasMorePath": "more"},
            "limits": {"maxBytes": "10GB", "maxRecords": 10_000_000, "maxPages": 10_000},
        }
    )
    print(json.dumps(asyncio.run(fetched(app))))


async def fetched(app: Ostinato) -> dict[str, float]:
    # What dlt imports is there before it is measured, too.
    import ostinato.engine.engine
    import ostinato.outgoing.network
    import ostinato.tasks.fetch  # noqa: F401

    growth, began, busy = Growth(), time.monotonic(), time.process_time()
    async with app.running():
        while True:
            job = await asyncio.to_thread(app.jobs.get, "source:records")
            if job.facts.completed + job.facts.failed:
                break
            await asyncio.sleep(0.02)
    seconds, cpu = time.monotonic() - began, time.process_time() - busy
    (run,) = app.executions.list(job=job.id, limit=1)
    assert run.outcome == "completed", run.error
    return {
        "seconds": seconds, "records": float(run.items_indexed or 0), "growth_mb": growth.megabytes(),
        "peak_mb": growth.peak(), "cpu": cpu,
    }  # fmt: skip


if __name__ == "__main__":
    main()
