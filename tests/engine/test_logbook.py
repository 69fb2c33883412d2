"""The log book: lines are stored in order, in time, within bounds, and no writer waits."""

import asyncio
import logging
import threading
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from ostinato.core.errors import StoreUnavailable
from ostinato.engine import logbook
from ostinato.engine.logbook import LogBook
from ostinato.isolation.plan import CUT, WrittenLine
from tests.engine.conftest import Rig
from tests.waiting import PATIENCE, until


class Shelf:
    """A log book, and the lines that the store has."""

    def __init__(self, rig: Rig, keep: int = 1_000_000) -> None:
        self._rig = rig
        self.book = LogBook(rig.store, rig.clock, self._in_store, keep)
        self.calls = 0
        self.away = False

    async def _in_store(self, call):
        self.calls += 1
        if self.away:
            raise StoreUnavailable("away")
        await asyncio.to_thread(call)

    def an_execution(self):
        (job_id,) = self._rig.enqueue()
        return self._rig.live(job_id)[0].id

    def read(self, execution_id):
        return self._rig.store.logs.read(execution_id, limit=100_000)

    def texts(self, execution_id):
        return [line.text for line in self.read(execution_id).lines]


async def test_a_record_is_kept_with_its_level(rig: Rig):
    shelf = Shelf(rig)
    run = shelf.an_execution()
    shelf.book.record(run, logging.WARNING, "careful")
    await shelf.book.flush()
    (line,) = shelf.read(run).lines
    assert (line.level, line.stream, line.text, line.at) == (
        logging.WARNING,
        "log",
        "careful",
        rig.clock.now(),
    )


async def test_what_is_printed_in_parts_becomes_lines_of_each_thread(rig: Rig):
    shelf = Shelf(rig)
    run = shelf.an_execution()
    shelf.book.printed(run, "stdout", "one")
    other = threading.Thread(target=shelf.book.printed, args=(run, "stdout", "two\n"))
    other.start()
    other.join()
    shelf.book.printed(run, "stderr", "err\r\n")
    shelf.book.printed(run, "stdout", "!\nthree\n\nunended")
    shelf.book.ended(run)
    await shelf.book.flush()
    lines = [(line.stream, line.text) for line in shelf.read(run).lines]
    out = [text for stream, text in lines if stream == "stdout"]
    assert out == ["two", "one!", "three", "", "unended"]
    assert [text for stream, text in lines if stream == "stderr"] == ["err"]
    assert not shelf.book.pages


async def test_what_a_database_would_refuse_is_kept_in_other_words(rig: Rig):
    shelf = Shelf(rig)
    run = shelf.an_execution()
    shelf.book.record(run, 10**30, "nul \0, half \ud800")
    shelf.book.record(run, -5, "x" * (2 * logbook.LONGEST_LINE + 1))
    await shelf.book.flush()
    lines = shelf.read(run).lines
    assert [len(line.text) for line in lines[1:]] == [logbook.LONGEST_LINE, logbook.LONGEST_LINE, 1]
    assert (lines[0].text, lines[0].level, lines[1].level) == ("nul \\x00, half \\ud800", logbook.GRAVEST, 0)


async def test_much_goes_at_once_and_little_after_a_while(rig: Rig, monkeypatch):
    monkeypatch.setattr(logbook, "FLUSH_EVERY", 3600)
    shelf = Shelf(rig)
    run = shelf.an_execution()
    waiting = asyncio.create_task(shelf.book.wait())
    shelf.book.record(run, logging.INFO, "little")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(waiting), 0.05)
    shelf.book.record(run, logging.INFO, "much " * logbook.MUCH)
    await asyncio.wait_for(waiting, PATIENCE)
    await shelf.book.flush()
    assert shelf.texts(run)[0] == "little"
    monkeypatch.setattr(logbook, "FLUSH_EVERY", 0.001)
    shelf.book.record(run, logging.INFO, "after a while")
    await asyncio.wait_for(shelf.book.wait(), PATIENCE)


async def test_nothing_written_is_nothing_done(rig: Rig):
    shelf = Shelf(rig)
    assert shelf.book.is_empty
    await shelf.book.flush()
    shelf.book.ended(uuid4())
    assert shelf.calls == 0


async def test_without_a_log_nothing_is_kept(rig: Rig):
    shelf = Shelf(rig, keep=0)
    run = shelf.an_execution()
    shelf.book.record(run, logging.INFO, "something")
    shelf.book.printed(run, "stdout", "something\n")
    shelf.book.written(WrittenLine(run, "", datetime.now(UTC), "stdout", logging.INFO, "", "something"))
    assert shelf.book.is_empty
    assert not shelf.book.pages


async def test_what_cannot_be_kept_now_is_kept_later_in_its_order(rig: Rig):
    shelf = Shelf(rig)
    run = shelf.an_execution()
    shelf.away = True
    shelf.book.record(run, logging.INFO, "one")
    with pytest.raises(StoreUnavailable):
        await shelf.book.flush()
    shelf.book.record(run, logging.INFO, "two")
    shelf.away = False
    await asyncio.wait_for(shelf.book.wait(), PATIENCE)  # it is called again
    await shelf.book.flush()
    assert shelf.texts(run) == ["one", "two"]


async def test_a_flush_that_is_cancelled_writes_nothing_twice(rig: Rig):
    shelf = Shelf(rig)
    run = shelf.an_execution()
    shelf.book.record(run, logging.INFO, "once")
    flushing = asyncio.create_task(shelf.book.flush())
    await until(lambda: shelf.calls == 1)
    flushing.cancel()
    await asyncio.gather(flushing, return_exceptions=True)
    await until(lambda: shelf.texts(run))
    await shelf.book.flush()
    assert shelf.texts(run) == ["once"]


async def test_a_flush_that_is_cancelled_and_fails_loses_nothing(rig: Rig):
    shelf = Shelf(rig)
    run, fails = shelf.an_execution(), asyncio.Event()

    async def in_store(_call):
        shelf.calls += 1
        await fails.wait()
        raise StoreUnavailable("away")

    shelf.book._in_store = in_store
    shelf.book.record(run, logging.INFO, "kept after all")
    flushing = asyncio.create_task(shelf.book.flush())
    await until(lambda: shelf.calls == 1)
    flushing.cancel()
    await asyncio.gather(flushing, return_exceptions=True)
    fails.set()
    await until(lambda: not shelf.book.is_empty)
    shelf.book._in_store = shelf._in_store
    await shelf.book.flush()
    assert shelf.texts(run) == ["kept after all"]


async def test_of_a_run_that_has_written_enough_the_rest_is_only_counted(rig: Rig):
    shelf = Shelf(rig, keep=10_000)
    run = shelf.an_execution()
    for _ in range(1000):
        shelf.book.record(run, logging.INFO, "x" * 99)
    assert len(shelf.book._lines) == 100
    shelf.book.written(WrittenLine(run, "", datetime.now(UTC), CUT, logging.INFO, "", "5000"))
    await shelf.book.flush()
    page = shelf.read(run)
    assert (len(page.lines), page.cut) == (100, 90_000 + 5000)
    assert shelf.book.is_empty


async def test_what_comes_too_fast_is_lost_and_told_in_its_place(rig: Rig, monkeypatch):
    monkeypatch.setattr(logbook, "MOST_OF_ONE", 10 * (100 + logbook.OVERHEAD))
    shelf = Shelf(rig)
    noisy, quiet = shelf.an_execution(), shelf.an_execution()
    for n in range(17):
        shelf.book.record(noisy, logging.INFO, f"{n:099}")
    shelf.book.record(quiet, logging.INFO, "still heard")
    await shelf.book.flush()
    shelf.book.record(noisy, logging.INFO, "after")
    await shelf.book.flush()
    lost = "… 7 lines were lost here: they came faster than they could be stored …"
    assert shelf.texts(noisy) == [*(f"{n:099}" for n in range(10)), lost, "after"]
    assert shelf.texts(quiet) == ["still heard"]


async def test_what_was_lost_last_is_told_when_the_run_ends(rig: Rig, monkeypatch):
    monkeypatch.setattr(logbook, "MOST_WAITING", 0)
    shelf = Shelf(rig)
    run = shelf.an_execution()
    shelf.book.record(run, logging.INFO, "never seen")
    shelf.book.ended(run)
    await shelf.book.flush()
    assert shelf.texts(run) == ["… 1 lines were lost here: they came faster than they could be stored …"]


async def test_threads_that_outlive_their_runs_do_not_fill_the_memory(rig: Rig, monkeypatch):
    monkeypatch.setattr(logbook, "MOST_PAGES", 10)
    shelf = Shelf(rig)
    for _ in range(100):
        shelf.book.record(uuid4(), logging.INFO, "late")
    assert len(shelf.book.pages) == 10


async def test_all_that_fits_is_kept_though_the_rest_was_cut_before_it_was_written(rig: Rig, monkeypatch):
    monkeypatch.setattr(logbook, "LINES_OF_A_TRANSACTION", 2)
    shelf = Shelf(rig, keep=5 * 16)
    run = shelf.an_execution()
    for n in range(9):
        shelf.book.record(run, logging.INFO, f"line {n}")
    await shelf.book.flush()
    assert shelf.texts(run) == [f"line {n}" for n in range(5)]
    assert shelf.read(run).cut == 4 * 16
    assert shelf.book.is_empty
