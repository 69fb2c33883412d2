"""The account of a run. The bounds are the documented ones; a busy machine does not change them."""

from __future__ import annotations

import pytest

from ostinato.core.account import Account, Stopped, account_text
from ostinato.core.outcome import Cancelled
from tests.isolation import work
from tests.isolation.conftest import Bench


async def test_the_peak_of_memory_is_that_of_the_run(bench: Bench):
    first = (await bench.run(work.allocates, megabytes=200)).account
    assert 200 <= first.memory_mb < 200 * 1.15
    second = (await bench.run(work.nothing)).account
    assert second.memory_mb < 60  # the peak of this run, not of the previous one


async def test_cpu_time_is_that_of_the_run(bench: Bench):
    first = (await bench.run(work.spins, seconds=1)).account
    assert 1000 <= first.cpu_ms < 1100
    second = (await bench.run(work.nothing)).account
    assert second.cpu_ms < 100


async def test_what_a_run_starts_is_counted(bench: Bench):
    spun = (await bench.run(work.spins_in_a_child, seconds=0.5)).account
    assert spun.cpu_ms >= 500
    grown = (await bench.run(work.allocates_in_a_child, megabytes=150)).account
    assert 150 <= grown.memory_mb < 150 * 1.15
    assert (await bench.run(work.allocates_in_a_child, megabytes=5)).account.memory_mb < 100


async def test_a_killed_run_is_counted_too(bench: Bench):
    running = bench.start(work.spins_in_a_sum, path=bench.at)
    await bench.reached()
    running.cancel(Cancelled())
    account = (await bench.end(running)).account
    assert account.stopped is Stopped.KILLED
    assert account.cpu_ms > 20
    assert account.memory_mb > 5


@pytest.mark.parametrize(
    "account",
    [
        Account(),
        Account(12, 31.5, Stopped.KILLED, 3),
        Account(0),
        Account(exit_code=0),
        Account(raised="shop.errors.OutOfStock"),
        Account(counters=(("requests", 3), ("seconds", 0.5))),
    ],
)
def test_an_account_is_read_as_it_was_written(account: Account):
    assert Account.from_json(account.to_json()) == account


def test_an_account_of_nothing_is_no_text():
    assert account_text(None) is None
    assert account_text(0) == '{"cpu_ms":0}'
