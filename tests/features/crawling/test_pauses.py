"""Turns at a host: one after the other, with a pause after each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ostinato.features.crawling.rows import LONGEST_PAUSE, next_turn

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PAUSES = st.timedeltas(timedelta(0), timedelta(minutes=1))


@given(st.lists(st.tuples(st.timedeltas(timedelta(0), timedelta(minutes=2)), PAUSES), max_size=30))
def test_no_two_turns_are_nearer_than_the_pause_of_the_first(asked):
    now, free_at, last = NOW, None, None
    for later, pause in asked:
        now += later
        turn, free_at = next_turn(free_at, now, pause)
        assert turn >= now
        if last is not None:
            assert turn >= last
        last = turn + pause


@given(st.timedeltas(-timedelta(days=400), timedelta(days=400)), PAUSES)
def test_nobody_waits_longer_than_an_hour(ahead, pause):
    turn, free_at = next_turn(NOW + ahead, NOW, pause)
    assert NOW <= turn <= NOW + LONGEST_PAUSE
    assert free_at == turn + pause
