"""Calls handed off by the loop: run on the listening thread, fetched on the loop."""

import asyncio
import threading

import pytest

from ostinato.engine.claim_timing import HandOff
from tests.waiting import PATIENCE


@pytest.fixture
def hand_off():
    return HandOff()


def as_it_is(brought):
    return brought


def nobody():
    pass


def elsewhere(hand_off):
    """Run it on another thread, as the listener does; return True if there was a call."""
    said = []
    thread = threading.Thread(target=lambda: said.append(hand_off.run()))
    thread.start()
    thread.join()
    return said[0]


async def test_what_it_brings_is_taken_up_on_the_loop_and_fetched(hand_off):
    here = threading.get_ident()
    hand_off.offer(threading.get_ident, lambda there: (there, threading.get_ident()), nobody)
    assert elsewhere(hand_off)
    there, taken_up = await hand_off.fetch()
    assert (there != here, taken_up) == (True, here)


@pytest.mark.parametrize("fetching", [False, True])
async def test_what_it_brings_is_dropped_once_who_left_it_is_gone(hand_off, fetching):
    begun, go_on, taken_up = threading.Event(), threading.Event(), []

    def call():
        begun.set()
        return go_on.wait(PATIENCE)

    hand_off.offer(call, taken_up.append, nobody)
    thread = threading.Thread(target=hand_off.run)
    thread.start()
    await asyncio.to_thread(begun.wait, PATIENCE)
    if fetching:
        waiting = asyncio.create_task(hand_off.fetch())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    else:
        hand_off.withdraw()
    go_on.set()
    await asyncio.to_thread(thread.join)
    await asyncio.sleep(0)
    assert taken_up == []


async def test_an_error_is_raised_where_it_is_fetched(hand_off):
    hand_off.offer(lambda: 1 // 0, as_it_is, nobody)
    assert elsewhere(hand_off)
    with pytest.raises(ZeroDivisionError):
        await hand_off.fetch()


async def test_so_is_one_of_taking_it_up(hand_off):
    hand_off.offer(lambda: 0, lambda none: 1 // none, nobody)
    assert elsewhere(hand_off)
    with pytest.raises(ZeroDivisionError):
        await hand_off.fetch()


@pytest.mark.parametrize(("call", "then"), [(int, as_it_is), (lambda: 1 // 0, as_it_is), (int, lambda none: 1 // none)])
async def test_who_left_it_is_called_when_it_has_ended_however_that_was(hand_off, call, then):
    called = asyncio.Event()
    hand_off.offer(call, then, called.set)
    assert elsewhere(hand_off)
    await asyncio.wait_for(called.wait(), PATIENCE)


async def test_what_nobody_has_begun_is_taken_back(hand_off):
    hand_off.offer(lambda: "done", as_it_is, nobody)
    assert await hand_off.fetch() is None
    assert not elsewhere(hand_off)


async def test_what_was_begun_is_waited_for(hand_off):
    begun, go_on = threading.Event(), threading.Event()

    def call():
        begun.set()
        return go_on.wait(PATIENCE)

    hand_off.offer(call, as_it_is, nobody)
    thread = threading.Thread(target=hand_off.run)
    thread.start()
    await asyncio.to_thread(begun.wait, PATIENCE)
    fetched = asyncio.create_task(hand_off.fetch())
    await asyncio.sleep(0)
    assert not fetched.done()
    go_on.set()
    assert await asyncio.wait_for(fetched, PATIENCE) is True
    thread.join()


async def test_each_is_run_once(hand_off):
    hand_off.offer(lambda: "once", as_it_is, nobody)
    assert [elsewhere(hand_off), elsewhere(hand_off)] == [True, False]
    assert await hand_off.fetch() == "once"


def test_a_loop_that_is_gone_is_told_nothing(hand_off):
    async def left():
        hand_off.offer(lambda: None, as_it_is, nobody)

    asyncio.run(left())
    assert elsewhere(hand_off)
