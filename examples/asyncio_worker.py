"""A plain asyncio program that runs jobs beside its own work: `python asyncio_worker.py`, stopped with Ctrl-C."""

import asyncio

from ostinato import Context, Ostinato

app = Ostinato("prices", database_url="sqlite:///prices.db")


@app.task(every="30s", first_run="now")
async def refresh(ctx: Context) -> int:
    ctx.log.info("Refreshing the prices")
    await asyncio.sleep(0.1)
    return 3


@app.task(retries=3)
def send(to: str) -> str:  # a `def` task runs on a thread, not on the loop
    return f"sent to {to}"


async def main() -> None:
    async with app.running():  # at the end it finishes its runs
        handle = await send.aenqueue("ann")
        print(await handle.aresult("10s"))
        await app.aio.jobs.pause("refresh")
        await app.aio.jobs.resume("refresh")
        print("refresh was paused, and is resumed")
        await asyncio.Event().wait()  # your own work


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("stopped")
