"""What jobs with the task `python` may call in these tests."""

import asyncio
from os import getcwd

from ostinato import Context

__all__ = ["adds", "counts", "fails", "getcwd", "knows", "waits"]


def adds(a: int, b: int) -> int:
    return a + b


async def waits() -> str:
    await asyncio.sleep(0)
    return "waited"


def knows(ctx: Context) -> bool:
    return ctx.occurrence_key.endswith("-n1")


def fails() -> None:
    raise ValueError("out of cheese")


def counts(ctx: Context) -> None:
    print("hello")  # noqa: T201  to the log
    ctx.progress(1, of=2)
    ctx.count(letters=2)
