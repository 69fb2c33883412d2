"""Limits: their keys, and the runs that they admit, as tables."""

from datetime import timedelta

import pytest

from ostinato.core.checks import check_definition
from ostinato.core.errors import Invalid
from ostinato.core.limits import START, Admitted, Rate, limit_key, parse_rate, passage
from ostinato.core.model import WaitsFor
from ostinato.core.policy import Overlap, Policies
from tests.build import HOUR, MINUTE, NOW, SECOND, a_definition
from tests.core.life import Life


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10/m", Rate(10, MINUTE)), ("5/s", Rate(5, SECOND)), ("100/h", Rate(100, HOUR)), ("1/d", Rate(1, 24 * HOUR)),
        ("20/30s", Rate(20, 30 * SECOND)), (" 2 / 5m ", Rate(2, 5 * MINUTE)),
    ],
)  # fmt: skip
def test_a_rate_is_so_many_in_a_while(text, rate):
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "10", "/m", "10/", "0/m", "1001/s", "10/x", "10/2d", "1/0s", "-1/m", "1.5/m"])
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(Invalid):
        check_definition(a_definition(rate_limit=text))


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({}, None),
        ({"max_concurrency": 1}, "/work"),
        ({"rate_limit": "1/s"}, "/work"),
        ({"max_concurrency": 1, "concurrency_key": "db"}, "/work:db"),
        ({"max_concurrency": 1, "concurrency_key": "{args[tenant]}"}, "/work:acme"),
        ({"max_concurrency": 1, "concurrency_key": "{args[to][city]}-{args[tenant]}"}, "/work:Rome-acme"),
    ],
)
def test_the_key_says_who_shares_a_limit(given, key):
    definition = a_definition(args='{"tenant": "acme", "to": {"city": "Rome"}}', **given)
    assert limit_key(definition) == key


def test_the_key_is_made_from_the_args_of_the_run_and_never_too_long():
    definition = a_definition(args='{"t": 1}', max_concurrency=1, concurrency_key="{args[t]}", app="shop")
    assert limit_key(definition, '{"t": 2}') == "shop/work:2"
    long = [limit_key(definition, f'{{"t": "{"x" * 300}{end}"}}') for end in "ab"]
    assert long[0] != long[1]
    assert max(map(len, long)) <= 200


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_concurrency": 0}, "max_concurrency must be between 1"),
        ({"concurrency_key": "x"}, "set max_concurrency or rate_limit too"),
        ({"max_concurrency": 1, "concurrency_key": "{args[nobody]}"}, "the args have no such value"),
        ({"max_concurrency": 1, "concurrency_key": "{args.__class__}"}, "has other braces"),
        ({"max_concurrency": 1, "concurrency_key": "{0}"}, "has other braces"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(given, message):
    with pytest.raises(Invalid, match=message):
        check_definition(a_definition(**given))


@pytest.mark.parametrize(
    ("most", "waiting", "active", "through"),
    [(3, 5, 0, 3), (3, 5, 2, 1), (3, 5, 3, 0), (3, 5, 9, 0), (3, 1, 0, 1)],
)
def test_so_many_at_once(most, waiting, active, through):
    assert passage(Policies(max_concurrency=most), waiting, active, (), NOW) == Admitted(through, ())


def test_so_many_in_any_stretch_of_a_while():
    """However often it is asked, no stretch as long as the period sees more than the rate."""
    policies, recent, passed, now = Policies(rate_limit="3/m"), (), [], NOW
    for _ in range(400):
        gone = passage(policies, 2, 0, recent, now)
        passed += [now] * gone.count
        assert gone.next_at is None or gone.next_at > now
        recent, now = gone.recent, now + timedelta(seconds=0.7)
    assert len(passed) >= 3 * 4
    assert all(sum(at <= other < at + MINUTE + START for other in passed) <= 3 for at in passed)


def test_it_says_when_the_rate_allows_more():
    first = passage(Policies(rate_limit="2/m"), 5, 0, (), NOW)
    assert (first.count, first.next_at) == (2, NOW + MINUTE + START)
    assert passage(Policies(rate_limit="2/m"), 5, 0, first.recent, NOW + MINUTE).count == 0
    assert passage(Policies(rate_limit="2/m"), 5, 0, first.recent, first.next_at).count == 2


def test_a_clock_set_back_does_not_close_the_gate_for_longer_than_the_period():
    gone = passage(Policies(rate_limit="1/m"), 1, 0, (NOW + HOUR,), NOW)
    assert (gone.count, gone.next_at) == (0, NOW + MINUTE + START)


def test_a_rate_that_was_lowered_counts_what_went_before():
    recent = tuple(NOW + n * SECOND for n in range(5))
    gone = passage(Policies(rate_limit="2/m"), 1, 0, recent, NOW + 5 * SECOND)
    assert (gone.count, gone.next_at) == (0, NOW + 3 * SECOND + MINUTE + START)


def test_both_limits_count():
    assert passage(Policies(max_concurrency=1, rate_limit="5/m"), 9, 0, (), NOW).count == 1
    assert passage(Policies(max_concurrency=9, rate_limit="5/m"), 9, 0, (), NOW).count == 5


def test_what_is_queued_waits_for_the_gate():
    life = Life(at=NOW, max_concurrency=1)
    assert (life.only.waits_for, life.only.limit_key) == (WaitsFor.LIMIT, "/work")


def test_a_retry_waits_for_its_time_first_and_keeps_its_key():
    life = Life(at=NOW, max_concurrency=1, max_retries=1)
    life.pass_gate()
    life.fail()
    assert (life.only.waits_for, life.only.limit_key) == (WaitsFor.TIME, "/work")


def test_who_gets_its_turn_waits_for_the_gate():
    life = Life(every=HOUR, max_concurrency=5, overlap=Overlap.QUEUE_ONE)
    for _ in range(2):
        life.advance(HOUR)
        life.turn()
    running, waiting = sorted(life.rows, key=lambda live: live.number)
    assert (running.waits_for, waiting.waits_for) == (WaitsFor.LIMIT, WaitsFor.TURN)
    life.pass_gate()
    life.run_one()
    assert life.only.waits_for is WaitsFor.LIMIT
