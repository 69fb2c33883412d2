"""Random ids: in the order of time, and the same from the same seed."""

import threading
from datetime import UTC, datetime, timedelta
from uuid import RFC_4122, UUID

from hypothesis import given
from hypothesis import strategies as st

from ostinato.chance import RandomChance

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
INSTANTS = st.integers(0, 10**17).map(lambda micros: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros))


@given(INSTANTS, INSTANTS)
def test_ids_are_in_the_order_of_time(one, other):
    chance = RandomChance()
    first, second = chance.id(min(one, other)), chance.id(max(one, other))
    apart = abs(one - other) >= timedelta(milliseconds=1) or one == other
    assert first < second or not apart
    assert (first.version, first.variant) == (7, RFC_4122)


def test_ids_of_one_instant_rise():
    chance = RandomChance()
    ids = [chance.id(NOW) for _ in range(10_000)]
    assert ids == sorted(set(ids))


def test_ids_in_one_go_rise_on_from_those_before():
    chance = RandomChance()
    ids = [chance.id(NOW), *chance.ids(NOW, 1000), chance.id(NOW), *chance.ids(NOW, 0), *chance.ids(NOW, 2)]
    ids += [UUID(bytes=each) for each in chance.ids_as_bytes(NOW, 3)]
    assert len(ids) == 1007
    assert ids == sorted(set(ids))


def test_an_instant_before_1970_has_an_id():
    assert isinstance(RandomChance().id(datetime(1, 1, 1, tzinfo=UTC)), UUID)


def test_the_same_seed_gives_the_same_chance():
    one, other = RandomChance(7), RandomChance(7)
    assert [one.id(NOW), one.fraction(), one.id(NOW)] == [other.id(NOW), other.fraction(), other.id(NOW)]
    assert RandomChance().id(NOW) != RandomChance().id(NOW)


def test_threads_never_get_the_same_id():
    chance, ids = RandomChance(), list[UUID]()
    threads = [threading.Thread(target=lambda: ids.extend(chance.id(NOW) for _ in range(5000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 20_000
