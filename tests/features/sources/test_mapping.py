"""Records become rows: found by their paths, converted, hashed; what cannot be is rejected with the reason."""

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.features.sources.rules import read_source
from ostinato.features.sources.rules.converting import CONVERT, less_overlap
from ostinato.features.sources.rules.mapping import Hash, Mapper
from ostinato.features.sources.rules.paths import getter
from ostinato.features.sources.rules.tables import ColumnType, MappedColumn
from tests.sources import a_source


def mapped(records, fields, unique=None):
    response = {"fields": fields} | ({} if unique is None else {"unique": unique})
    rejected = []
    return list(Mapper(read_source(a_source(response=response))).rows(records, 1, rejected)), rejected


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a", {"b": [10, {"c": "x"}]}),
        ("a.b", [10, {"c": "x"}]),
        ("a.b.0", 10),
        ("a.b.1.c", "x"),
        ("a.b.7", None),
        ("nobody.here", None),
        (".", {"a": {"b": [10, {"c": "x"}]}}),
        ("a.b[1].c", "x"),
        ("a.b[?c=='x'] | [0].c", "x"),
        ("length(a.b)", 2),
        ('"a".b[-1].c', "x"),
    ],
)
def test_a_path_is_dotted_or_jmespath(path, found):
    assert getter(path)({"a": {"b": [10, {"c": "x"}]}}) == found


def test_a_record_may_be_a_list():
    assert getter("1")([1700000000, 3.5]) == 3.5


@pytest.mark.parametrize(
    ("kind", "given", "cell"),
    [
        ("text", "a", "a"),
        ("text", 1, "1"),
        ("text", 1.5, "1.5"),
        ("text", True, "true"),
        ("text", {"a": [1]}, '{"a":[1]}'),
        ("integer", 7, 7),
        ("integer", "7", 7),
        ("integer", 7.0, 7),
        ("integer", "7.0", 7),
        ("integer", "", None),
        ("number", "1e3", 1000.0),
        ("number", 2, 2.0),
        ("boolean", "Yes", True),
        ("boolean", 0, False),
        ("boolean", False, False),
        ("timestamp", "2026-11-16T09:00:00+01:00", "2026-11-16T08:00:00.000000Z"),
        ("timestamp", "2026-11-16 09:00", "2026-11-16T09:00:00.000000Z"),
        ("timestamp", "2026-11-16", "2026-11-16T00:00:00.000000Z"),
        ("timestamp", 1700000000, "2023-11-14T22:13:20.000000Z"),
        ("timestamp", 1700000000123, "2023-11-14T22:13:20.123000Z"),
        ("timestamp", "Mon, 16 Nov 2026 09:00:00 GMT", "2026-11-16T09:00:00.000000Z"),
        ("date", "2026-11-16", "2026-11-16"),
        ("date", "2026-11-16T23:30:00-05:00", "2026-11-16"),
        ("date", 1700000000, "2023-11-14"),
        ("date", "1700000000", "2023-11-14"),
        ("date", "2023", "2023-01-01"),
        ("date", 2023, "2023-01-01"),
        ("date", "202305", "2023-05-01"),
        ("date", 20230517, "2023-05-17"),
        ("timestamp", "1999", "1999-01-01T00:00:00.000000Z"),
        ("timestamp", "1611111112000", "2021-01-20T02:51:52.000000Z"),  # to Python's reader, a day of 1611
        ("timestamp", 1700000000123456, "2023-11-14T22:13:20.123456Z"),
        ("timestamp", 1700000000.25, "2023-11-14T22:13:20.250000Z"),
        ("timestamp", "-100000000", "1966-10-31T14:13:20.000000Z"),
        ("json", {"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
    ],
)
def test_values_are_converted_to_the_type_of_their_column(kind, given, cell):
    found = CONVERT[ColumnType(kind)](given)
    assert (found, type(found)) == (cell, type(cell))


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("text", "a\0b"),
        ("text", "\ud800"),
        ("integer", "seven"),
        ("integer", 1.5),
        ("integer", 2**70),
        ("integer", [1]),
        ("number", "1,5"),
        ("number", "nan"),
        ("number", True),
        ("boolean", "perhaps"),
        ("boolean", 2),
        ("timestamp", "yesterday"),
        ("timestamp", {"at": 1}),
        ("timestamp", 10**40),
        ("timestamp", 86400),  # 5 digits: neither a year nor seconds since 1970
        ("timestamp", "170000000000000000"),
        ("timestamp", "2023.5"),
        ("timestamp", -2023),
        ("date", "202313"),
        ("date", 0),
        ("date", "2026-02-30"),
        ("json", "a\0b"),
    ],
)
def test_what_cannot_be_converted_is_rejected_and_the_others_go_on(kind, given):
    fields = [{"source": "n", "target": "n", "type": "integer"}, {"source": "v", "target": "v", "type": kind}]
    rows, rejected = mapped([{"n": 1, "v": given}, {"n": 2, "v": None}], fields)
    assert [row[0] for row in rows] == [2]
    assert [(each.record, each.field) for each in rejected] == [(1, "v")]
    assert rejected[0].reason
    json.dumps(rejected[0].excerpt).encode()


def test_a_record_with_nothing_of_its_unique_tuple_is_rejected():
    fields = [{"source": "id", "target": "number"}, {"source": "v", "target": "v"}]
    rows, rejected = mapped([{"v": 1}, {"id": 1}], fields, ["number"])
    assert len(rows) == 1
    assert "none of the fields that tell it from others is there" in str(rejected[0])


def test_the_hash_is_of_the_unique_tuple_and_of_the_source():
    fields = [{"source": "id", "target": "number"}, {"source": "v", "target": "v"}]
    (one, other, third), _ = mapped([{"id": 1, "v": 1}, {"id": 1, "v": 2}, {"id": 2, "v": 1}], fields, ["number"])
    assert one[-1] == other[-1] != third[-1]
    assert hash_of("a", ["1"]) != hash_of("b", ["1"])
    assert hash_of("a", ["1", "2"]) != hash_of("a", ["1,2"])


def hash_of(source, key):
    (found,) = Hash(source).of([tuple(key)])
    return found


def test_the_hashes_of_neighbours_lie_together_in_an_index():
    days = [f"2026-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29)]
    ids = range(1000, 2000)
    for keys in (
        [(day, "x") for day in days],
        [(number,) for number in ids],
        [("a", number) for number in ids],
    ):
        hashes = Hash("s").of(keys)
        assert hashes == sorted(hashes)
        assert max(map(len, hashes)) <= 28


RECORDS = st.lists(
    st.fixed_dictionaries({}, optional={
        "n": st.one_of(st.integers(), st.none(), st.text(max_size=3)),
        "x": st.one_of(st.floats(), st.integers(), st.none()),
        "t": st.one_of(st.text(max_size=5), st.integers(), st.booleans()),
        "b": st.one_of(st.booleans(), st.sampled_from(["yes", "no", "", 1, 0])),
        "d": st.one_of(st.dates().map(str), st.none()),
    }) | st.none() | st.just([]), max_size=6,
)  # fmt: skip


@given(RECORDS)
def test_all_at_once_comes_to_the_same_as_one_by_one(records):
    kinds = {"n": "integer", "x": "number", "t": "text", "b": "boolean", "d": "date"}
    fields = [{"source": name, "target": name, "type": kind} for name, kind in kinds.items()]
    together, rejected = mapped(records, fields)
    alone = [mapped([record], fields) for record in records]
    assert repr(together) == repr([row for rows, _ in alone for row in rows])  # 1 is not 1.0 here, nor True
    assert [each.reason for each in rejected] == [each.reason for _, some in alone for each in some]


@given(st.lists(st.one_of(st.text(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.none())))
def test_the_same_tuple_has_the_same_hash_and_others_another(key):
    try:
        first = hash_of("s", key)
    except UnicodeEncodeError:
        return
    assert first == hash_of("s", list(key))
    assert first != hash_of("s", [*key, None])


@given(st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8))  # fmt: skip
def test_whatever_comes_becomes_a_row_or_a_rejection(value):
    fields = [{"source": "v", "target": f"as_{kind}", "type": kind} for kind in ColumnType]
    for kind in fields:
        rows, rejected = mapped([{"v": value}], [kind])
        assert len(rows) + len(rejected) == 1


@pytest.mark.parametrize(
    ("kind", "greatest", "overlap", "asked"),
    [
        ("date", "2026-11-16", timedelta(days=1), "2026-11-15"),
        ("date", "2026-11-16", None, "2026-11-16"),
        ("timestamp", "2026-11-16T09:00:00.000000Z", timedelta(hours=1), "2026-11-16T08:00:00Z"),
        ("timestamp", "2026-11-16 09:00:00+00", None, "2026-11-16T09:00:00Z"),
        ("integer", 100, 10.0, "90"),
        ("integer", 100, None, "100"),
        ("number", 1.5, 0.5, "1.0"),
        ("text", "abc", None, "abc"),
    ],
)
def test_incremental_asks_from_the_greatest_value_less_the_overlap(kind, greatest, overlap, asked):
    assert less_overlap(greatest, MappedColumn("c", ColumnType(kind)), overlap) == asked
