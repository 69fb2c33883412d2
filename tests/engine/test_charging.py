"""A coroutine is charged for its own steps only, and behaves the same."""

from __future__ import annotations

import asyncio
import time
from contextvars import copy_context

import pytest

from ostinato.engine.threads import charged
from tests.isolation.work import spins


class Purse:
    cpu = 0.0
    steps = 0


async def test_only_its_own_steps_are_charged():
    ours, others = Purse(), Purse()

    async def small() -> str:
        await asyncio.sleep(0)  # the other one goes first
        return "small"

    async def big() -> None:
        spins(0.2)

    began = time.perf_counter()
    results = await asyncio.gather(_await(small(), ours), _await(big(), others))
    took = time.perf_counter() - began
    assert results == ["small", None]
    assert others.cpu >= 0.2
    assert ours.cpu < others.cpu
    assert ours.cpu + others.cpu <= took


async def _await(coroutine, purse: Purse):
    return await charged(coroutine, purse, copy_context().run)


async def test_results_errors_and_cancels_pass_through():
    async def raises() -> None:
        await asyncio.sleep(0)
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        await charged(raises(), Purse(), copy_context().run)

    seen = []

    async def waits() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
        return "went on"

    waiting = asyncio.ensure_future(_await(waits(), Purse()))
    await asyncio.sleep(0)  # it begins
    waiting.cancel()
    assert await waiting == "went on"
    assert seen == ["cancelled"]


def test_a_coroutine_that_is_thrown_away_is_closed():
    closed = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async def outer() -> None:
        await charged(waits(), Purse(), copy_context().run)

    coroutine = outer()
    loop = asyncio.new_event_loop()
    task = loop.create_task(coroutine)
    loop.call_soon(loop.stop)
    loop.run_forever()
    task._log_destroy_pending = False
    coroutine.close()
    loop.close()
    assert closed == [True]
