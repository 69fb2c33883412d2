"""Parameters and results of statements, on both databases."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from uuid import uuid4

import pytest

from ostinato.core.errors import StoreError
from ostinato.store.rows import from_micros, to_uuid
from tests.store.database.conftest import NOON, add, xs


def test_values_of_every_type_survive_a_batch(db):
    ids = [uuid4(), uuid4(), uuid4()]
    rows = [
        (ids[0], -5, NOON, 'it\'s ü \n"quoted" {a,b} 日本', 1.5, '{"a": [1, null]}'),
        (ids[1], 7, None, None, None, None),
        (ids[2], 999, NOON + timedelta(days=9000), "", -0.25, "null"),
    ]
    with db.write() as tx:
        assert tx.run("add_many", rows) == 3
    with db.read() as tx:
        found = [
            (to_uuid(i), x, at if at is None else from_micros(at), note, weight, args)
            for i, x, at, note, weight, args in tx.rows("all")
        ]
    assert found == rows


@pytest.mark.parametrize("count", [0, 1, 3, 1200])
def test_batches_of_any_size_and_columns_of_nothing_but_null(db, count):
    rows = [(uuid4(), i, None, None, None, None) for i in range(count)]
    with db.write() as tx:
        assert tx.run("add_many", rows) == count
        assert tx.run("move", [(row[0], row[1] + 1) for row in rows]) == count
        assert tx.run("move_known", [(row[0], 0) for row in rows]) == count
        assert len(tx.rows("remove", [(row[0],) for row in rows])) == count


def test_lists_are_parameters_too(db):
    ids = [uuid4() for _ in range(4)]
    with db.write() as tx:
        tx.run("add_many", [(i, x, None, f"n{x}", None, None) for x, i in enumerate(ids)])
        chosen = tx.rows("chosen", ids=ids[:3], notes=["n1", "n2", "n3"], xs=(0, 1, 2))
        assert [to_uuid(row[0]) for row in chosen] == ids[1:3]
        assert tx.rows("chosen", ids=[], notes=[], xs=[]) == []


class Colour(StrEnum):
    RED = "red"


def test_an_enum_is_its_value(db):
    add(db, 1, Colour.RED)
    with db.read() as tx:
        assert tx.row("by_note", note="red") == (1,)
        assert tx.row("by_note", note=Colour.RED) == (1,)
        assert tx.row("by_note", note="RED") is None


def test_a_percent_sign_is_just_that(db):
    add(db, 2, "50% off")
    with db.read() as tx:
        assert tx.row("percent", x=10) == (1,)


def test_an_instant_is_a_parameter(db):
    with db.write() as tx:
        tx.run("add_many", [(uuid4(), 1, NOON, None, None, None)])
        assert tx.rows("since", at=NOON) == [(1,)]
        assert tx.rows("since", at=NOON + timedelta(microseconds=1)) == []


def test_wrong_parameters_are_refused_before_anything_is_sent(db):
    with db.write() as tx:
        with pytest.raises(TypeError, match=r"wants \['id', 'note', 'x'\], got \['id', 'y'\]"):
            tx.run("add", id=uuid4(), y=1)
        with pytest.raises(TypeError, match="move wants a batch"):
            tx.run("move")
        with pytest.raises(TypeError, match="all wants no batch"):
            tx.rows("all", [])
        with pytest.raises(StoreError, match="no statement nonsense"):
            tx.rows("nonsense")
        tx.run("add", id=uuid4(), x=1, note=None)
    assert xs(db) == [1]


def test_the_clock(db):
    assert abs(db.now() - datetime.now(UTC)) < timedelta(seconds=5)
    assert db.now().tzinfo is UTC
