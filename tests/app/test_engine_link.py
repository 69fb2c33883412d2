"""Queries from the HTTP process to the engine: limits of number and time."""

from __future__ import annotations

import asyncio
import socket
from datetime import timedelta

import pytest

from ostinato.app.engine_link import SILENT, EngineLink, EngineReport, frames
from ostinato.core.errors import StoreUnavailable
from ostinato.isolation.frames import packed
from ostinato.telemetry.measures import RunTimes, StoreTimes
from ostinato.telemetry.process_metrics import EndedTotals, ProcessMetrics
from ostinato.telemetry.reports import Counts
from tests.build import NOW
from tests.waiting import PATIENCE, until


class AnEngine:
    """An engine with a problem and some ended runs."""

    def __init__(self) -> None:
        self.measured = ProcessMetrics(Counts(), RunTimes(), StoreTimes(), EndedTotals())
        self.measured.counts.add("claimed", count=3)
        self.measured.run_times.add([("fine", NOW, NOW - timedelta(seconds=1), NOW + timedelta(hours=9))])
        self.measured.store_times.add(0.002)

    def troubles(self) -> list[str]:
        return ["The dispatcher does not step."]

    def measure(self) -> ProcessMetrics:
        return self.measured


REPORT = EngineReport.of(AnEngine())


class Pair:
    """Both ends of the link; a test lets the engine's process answer."""

    def __init__(self, patience: float) -> None:
        self.patience, self.asked, self.now = patience, 0, 0.0
        self.is_late = patience < 1

    async def __aenter__(self) -> Pair:
        here, there = socket.socketpair()
        reader, self._writer = await asyncio.open_connection(sock=here)
        self._theirs, self._answers = await asyncio.open_connection(sock=there)
        self.link = EngineLink(self._writer, 1, self.patience, lambda: self.now)
        self._tasks = [
            asyncio.create_task(frames(reader, self.link.answered)),
            asyncio.create_task(frames(self._theirs, self._count)),
        ]
        return self

    def _count(self, frame: object) -> None:
        self.asked += 1
        if not self.is_late:
            self.answer()

    def answer(self) -> None:
        self._answers.write(packed({}, REPORT.to_json()))

    async def __aexit__(self, *_: object) -> None:
        for writer in (self._writer, self._answers):
            writer.close()
        await asyncio.gather(*self._tasks)


def test_a_report_is_read_back_exactly():
    assert EngineReport.from_json(REPORT.to_json()).to_json() == REPORT.to_json()
    assert EngineReport.from_json(REPORT.to_json()).measurement.counts == {("claimed", ""): 3}


def test_one_question_a_second_is_sent_however_many_ask():
    asyncio.run(_one_question())


async def _one_question():
    async with Pair(patience=60.0) as pair:
        for moment, questions in ((0.0, 1), (0.9, 1), (1.0, 2)):
            pair.now = moment
            told = await asyncio.gather(*(asyncio.to_thread(pair.link.troubles) for _ in range(10)))
            assert told == [REPORT.troubles] * 10
            assert pair.asked == questions
        assert (await asyncio.to_thread(pair.link.measurement)).counts == {("claimed", ""): 3}


def test_an_engine_that_does_not_answer_is_trouble():
    asyncio.run(_no_answer())


async def _no_answer():
    async with Pair(patience=0.01) as pair:
        assert await asyncio.to_thread(pair.link.troubles) == [SILENT]
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await asyncio.to_thread(pair.link.measurement)


@pytest.mark.parametrize(("second_at", "questions"), [(1.5, 1), (60.0, 2)])
def test_a_late_answer_is_for_all_who_wait(second_at, questions):
    async def story():
        async with Pair(patience=60.0) as pair:
            pair.is_late = True
            first = asyncio.create_task(asyncio.to_thread(pair.link.troubles))
            await until(lambda: pair.asked == 1)
            pair.now = second_at
            second = asyncio.create_task(asyncio.to_thread(pair.link.troubles))
            await until(lambda: pair.asked == questions)
            pair.answer()
            async with asyncio.timeout(PATIENCE):
                assert await asyncio.gather(first, second) == [REPORT.troubles] * 2

    asyncio.run(story())
