"""Errands: left on the loop, run by whoever comes by, fetched on the loop."""

import asyncio
import threading

import pytest

from ostinato.engine.claim_timing import Errand
from tests.waiting import PATIENCE


@pytest.fixture
def errand():
    return Errand()


def as_it_is(brought):
    return brought


def nobody():
    pass


def elsewhere(errand):
    """Run it on another thread, as the bell does; whether there was one."""
    said = []
    thread = threading.Thread(target=lambda: said.append(errand.run()))
    thread.start()
    thread.join()
    return said[0]


async def test_what_it_brings_is_taken_up_on_the_loop_and_fetched(errand):
    here = threading.get_ident()
    errand.leave(threading.get_ident, lambda there: (there, threading.get_ident()), nobody)
    assert elsewhere(errand)
    there, taken_up = await errand.fetch()
    assert (there != here, taken_up) == (True, here)


@pytest.mark.parametrize("fetching", [False, True])
async def test_what_it_brings_is_dropped_once_who_left_it_is_gone(errand, fetching):
    begun, go_on, taken_up = threading.Event(), threading.Event(), []

    def call():
        begun.set()
        return go_on.wait(PATIENCE)

    errand.leave(call, taken_up.append, nobody)
    thread = threading.Thread(target=errand.run)
    thread.start()
    await asyncio.to_thread(begun.wait, PATIENCE)
    if fetching:
        waiting = asyncio.create_task(errand.fetch())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    else:
        errand.withdraw()
    go_on.set()
    await asyncio.to_thread(thread.join)
    await asyncio.sleep(0)
    assert taken_up == []


async def test_an_error_is_raised_where_it_is_fetched(errand):
    errand.leave(lambda: 1 // 0, as_it_is, nobody)
    assert elsewhere(errand)
    with pytest.raises(ZeroDivisionError):
        await errand.fetch()


async def test_so_is_one_of_taking_it_up(errand):
    errand.leave(lambda: 0, lambda none: 1 // none, nobody)
    assert elsewhere(errand)
    with pytest.raises(ZeroDivisionError):
        await errand.fetch()


@pytest.mark.parametrize(
    ("call", "then"), [(int, as_it_is), (lambda: 1 // 0, as_it_is), (int, lambda none: 1 // none)]
)
async def test_who_left_it_is_called_when_it_has_ended_however_that_was(errand, call, then):
    called = asyncio.Event()
    errand.leave(call, then, called.set)
    assert elsewhere(errand)
    await asyncio.wait_for(called.wait(), PATIENCE)


async def test_what_nobody_has_begun_is_taken_back(errand):
    errand.leave(lambda: "done", as_it_is, nobody)
    assert await errand.fetch() is None
    assert not elsewhere(errand)


async def test_what_was_begun_is_waited_for(errand):
    begun, go_on = threading.Event(), threading.Event()

    def call():
        begun.set()
        return go_on.wait(PATIENCE)

    errand.leave(call, as_it_is, nobody)
    thread = threading.Thread(target=errand.run)
    thread.start()
    await asyncio.to_thread(begun.wait, PATIENCE)
    fetched = asyncio.create_task(errand.fetch())
    await asyncio.sleep(0)
    assert not fetched.done()
    go_on.set()
    assert await asyncio.wait_for(fetched, PATIENCE) is True
    thread.join()


async def test_each_is_run_once(errand):
    errand.leave(lambda: "once", as_it_is, nobody)
    assert [elsewhere(errand), elsewhere(errand)] == [True, False]
    assert await errand.fetch() == "once"


def test_a_loop_that_is_gone_is_told_nothing(errand):
    async def left():
        errand.leave(lambda: None, as_it_is, nobody)

    asyncio.run(left())
    assert elsewhere(errand)
