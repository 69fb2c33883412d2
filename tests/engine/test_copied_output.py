"""The worker's own log shows the beginning of what a run writes."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from ostinato.engine.logbook import Echo
from ostinato.isolation.plan import WrittenLine


@pytest.mark.parametrize(
    ("most", "shown"), [(2, ["0", "1", "The rest is in the log of the execution"]), (None, list("01234"))]
)
def test_the_beginning_is_shown_or_all_of_it(caplog, most, shown):
    caplog.set_level(logging.INFO, "ostinato.task")
    echo, run = Echo(most), uuid4()
    for n in range(5):
        echo.show(WrittenLine(run, "key", datetime.now(UTC), "stdout", logging.INFO, "", str(n)))
    assert [record.msg.event for record in caplog.records] == shown
    echo.ended(run)
    echo.show(WrittenLine(run, "key", datetime.now(UTC), "stdout", logging.INFO, "", "again"))
    assert caplog.records[-1].msg.event == "again"
