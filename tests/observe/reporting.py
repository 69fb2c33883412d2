"""A program with Sentry: its processes append their envelopes to a file. It runs one task that fails, and ends."""

import asyncio
import json
import os
import sys
from typing import Any

import sentry_sdk
from sentry_sdk.transport import Transport

from tests.observe import traced


class ToFile(Transport):
    """A transport that writes to a file."""

    def capture_envelope(self, envelope: Any) -> None:
        with open(sys.argv[2], "a", encoding="utf-8") as file:
            for item in envelope.items:
                file.write(json.dumps([os.getpid(), item.type, item.payload.json]) + "\n")


sentry_sdk.init(dsn="https://key@example.invalid/1", transport=ToFile())


@traced.app.around
def marked(ctx: Any) -> Any:
    """Make the processes for runs import this module."""
    yield


async def main() -> None:
    app, task = traced.app, sys.argv[3]
    app.configure(database_url=sys.argv[1], sentry=True)
    async with app.running():
        handle = await app.registry.get(task).aenqueue(fail=9)
        await handle.await_()
    app.close()
    sys.stdout.write(f"{os.getpid()}\n")


if __name__ == "__main__":
    asyncio.run(main())
