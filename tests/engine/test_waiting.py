"""The wait of a process that starts while its database is unavailable."""

import logging

import pytest

from ostinato.core.errors import SchemaBehind, StoreUnavailable
from ostinato.engine import duties
from ostinato.engine.duties import StoreWait, until_available

AWAY = StoreUnavailable("No connection to postgresql://db: refused.\nDetails follow.")


def test_it_tries_later_and_later_and_tells_once_a_minute(caplog):
    now = 1000.0
    waiting, pauses = StoreWait(lambda: now), []
    while now < 1000 + 180:
        pauses.append(waiting.away(AWAY))
        now += pauses[-1]
    assert pauses[:8] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert set(pauses[8:]) == {5.0}
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 3
    assert 'error="No connection to postgresql://db: refused."' in told[0]
    assert "waited=0s" in told[0]


def test_the_end_of_a_wait_is_told_and_only_then(caplog):
    caplog.set_level(logging.INFO)
    waiting = StoreWait(lambda: 0.0)
    waiting.over()
    assert caplog.records == []
    waiting.away(AWAY)
    waiting.over()
    assert caplog.records[-1].getMessage().startswith("Database available")


def test_a_duty_is_done_as_soon_as_the_database_is_available(monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr(duties.time, "sleep", pauses.append)
    answers = iter([AWAY, AWAY, "done"])

    def duty() -> str:
        answer = next(answers)
        if isinstance(answer, StoreUnavailable):
            raise answer
        return answer

    assert until_available(duty) == "done"
    assert pauses == [0.1, 0.2]


def test_what_does_not_pass_is_raised():
    def duty() -> None:
        raise SchemaBehind("upgrade")

    with pytest.raises(SchemaBehind):
        until_available(duty)
