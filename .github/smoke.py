"""Run one job with the installed package, on a new database: the release workflow does this with each extra."""

import asyncio
import tempfile
from pathlib import Path

from ostinato import Ostinato


async def run_one_job(folder: str) -> None:
    app = Ostinato("smoke", database_url=f"sqlite:///{Path(folder) / 'smoke.db'}")
    app.register("add", lambda a, b: a + b)
    async with app.running():
        ended = await app.enqueue([app.call("add", a=1, b=2)])[0].await_("30s")
    app.close()
    if (ended.status, ended.result) != ("completed", 3):
        raise SystemExit(f"The job is {ended.status}: {ended.error}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run_one_job(folder))
