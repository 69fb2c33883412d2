"""The tables of sources: created, filled page by page under the fence of a run, read, emptied."""

from dataclasses import replace
from functools import partial

import pytest

from ostinato.core.errors import Invalid, LeaseLost, StoreError
from ostinato.features.sources.databases import Reach
from ostinato.features.sources.filling import Moments
from ostinato.features.sources.rows import Hold, SourceRecords, _Saving
from ostinato.features.sources.rules.tables import ColumnType, MappedColumn, TableState, Target
from tests.build import NOW, SECOND
from tests.store.conftest import LEASE, together

COLUMNS = (
    MappedColumn("day", ColumnType.DATE),
    MappedColumn("amount", ColumnType.NUMBER),
    MappedColumn("count", ColumnType.INTEGER),
    MappedColumn("final", ColumnType.BOOLEAN),
    MappedColumn("at", ColumnType.TIMESTAMP),
    MappedColumn("more", ColumnType.JSON),
    MappedColumn("Name"),
)
TARGET = Target("gdp", "observations", COLUMNS)


def a_row(number, **changes):
    cells = {
        "day": "2026-11-16", "amount": 0.1 + number, "count": number, "final": True,
        "at": "2026-11-16T08:00:00.000000Z", "more": '{"a":1}', "Name": f"it's {number}",
    } | changes  # fmt: skip
    return (*cells.values(), f"hash-{number}".encode())


@pytest.fixture
def records(world):
    """An empty folder: tables of users are not ours to truncate."""
    for table in ("observations", "theirs", '"Odd"'):
        world.sql(f"DROP TABLE IF EXISTS {table}")
    return world.store.part(SourceRecords)


@pytest.fixture
def hold(world):
    return a_hold(world)


def a_hold(world):
    """The right of a newly claimed run to write."""
    (job_id,) = world.enqueue()
    (claimed,) = world.claim(world.worker())
    assert claimed.live.job_id == job_id
    return Hold(claimed.live.id, claimed.live.fence)


def checkpoint(stored):
    return f'{{"new":{stored.written.inserted}}}'


def insert(records, hold, *chunks, target=TARGET):
    """Store a page; return the number of new rows."""
    return records.insert(target, chunks, hold, checkpoint, NOW).written.inserted


def store_rows(records, hold, *numbers, target=TARGET):
    return insert(records, hold, [a_row(number) for number in numbers], target=target)


def test_a_table_is_made_filled_and_read(records, hold):
    assert records.look(TARGET) == TableState(exists=False, ours=True)
    assert records.newest(TARGET, 10) == []
    assert records.greatest(TARGET, COLUMNS[2]) is None
    records.prepare(TARGET, hold)
    assert records.look(TARGET) == TableState(exists=True, ours=True)
    assert store_rows(records, hold, 1, 2) == 2
    newest, oldest = records.newest(TARGET, 10)
    assert (newest["id"], oldest["id"]) == (2, 1)
    created_at = oldest.pop("created_at")
    assert (created_at[:4], created_at[-1]) == ("2026", "Z")
    at = oldest.pop("at")
    assert at.rstrip("Z").removesuffix(".000000") == "2026-11-16T08:00:00"
    assert oldest == {
        "id": 1, "source_name": "gdp", "day": "2026-11-16", "amount": 1.1, "count": 1, "final": True,
        "more": {"a": 1}, "Name": "it's 1",
    }  # fmt: skip


def test_rows_that_are_there_already_are_left_and_not_counted(records, hold):
    records.prepare(TARGET, hold)
    assert store_rows(records, hold, 1, 2, 2) == 2
    assert store_rows(records, hold, 2, 3) == 1
    assert len(records.newest(TARGET, 10)) == 3


def test_a_page_is_stored_with_its_checkpoint(world, records, hold):
    records.prepare(TARGET, hold)
    store_rows(records, hold, 1)
    (row,) = [row for row in world.jobs() if row.lives]
    assert row.lives[0].checkpoint == '{"new":1}'


def test_g2_a_run_that_lost_its_execution_stores_nothing(records, hold):
    records.prepare(TARGET, hold)
    with pytest.raises(LeaseLost):
        store_rows(records, hold._replace(fence=hold.fence + 1), 1)
    assert records.newest(TARGET, 10) == []


def test_nothing_is_stored_after_the_job_was_deleted_while_it_runs(world, records, hold):
    records.prepare(TARGET, hold)
    (row,) = world.jobs()
    world.command(row.job.id, "delete")
    with pytest.raises(LeaseLost):
        store_rows(records, hold, 1)
    assert records.newest(TARGET, 10) == []


def test_a_page_that_cannot_be_stored_leaves_nothing_behind(records, hold):
    records.prepare(TARGET, hold)

    def chunks():
        yield [a_row(1)]
        raise StoreError("the answer broke off")

    with pytest.raises(StoreError):
        records.insert(TARGET, chunks(), hold, checkpoint, NOW)
    assert records.newest(TARGET, 10) == []


@pytest.mark.parametrize("count", [1, 24, 25, 26, 249, 250, 251, 276, 777])
def test_every_row_of_a_page_is_stored_as_it_is_and_in_its_order(records, hold, count):
    records.prepare(TARGET, hold)
    assert store_rows(records, hold, *range(count)) == count
    found = records.newest(TARGET, 1000)[::-1]
    assert [(row["count"], row["amount"], row["Name"]) for row in found] == [
        (number, 0.1 + number, f"it's {number}") for number in range(count)
    ]
    assert {row["source_name"] for row in found} == {"gdp"}


def test_a_record_that_comes_twice_is_there_once(records, hold):
    records.prepare(TARGET, hold)
    assert insert(records, hold, [a_row(1), a_row(1)], [a_row(1), a_row(2)]) == 2
    assert store_rows(records, hold, 2, 3, 3) == 1


def test_what_several_store_at_the_same_moment_is_there_once(records, hold):
    records.prepare(TARGET, hold)
    for first in range(0, 2000, 200):
        page = range(first, first + 200)
        new = together(*[partial(store_rows, records, hold, *page)] * 4)
        assert sum(new) == 200
    assert len(records.newest(TARGET, 3000)) == 2000


def test_rows_that_were_made_ready_ahead_are_stored_once_whatever_happens_in_between(records, hold):
    records.prepare(TARGET, hold)
    store_rows(records, hold, 1)
    ahead = [records.pack(TARGET, [a_row(number) for number in page]) for page in ([1, 2, 3, 3], [3, 4], [5])]
    store_rows(records, hold, 2)
    assert [insert(records, hold, rows) for rows in ahead] == [1, 1, 1]
    assert [row["count"] for row in records.newest(TARGET, 10)] == [5, 4, 3, 2, 1]
    assert insert(records, hold, records.pack(TARGET, [])) == 0


ODD_CELLS = [
    dict.fromkeys(("day", "amount", "count", "final", "at", "more", "Name")),
    {"day": "0001-01-01", "at": "0001-01-01T00:00:00.000000Z", "count": -(2**63) + 1, "amount": -0.0},
    {
        "day": "9999-12-31",
        "at": "9999-12-31T23:59:59.999999Z",
        "count": 2**63 - 1,
        "amount": 1.7976931348623157e308,
    },
    {"day": "1969-12-31", "at": "1999-12-31T23:59:59.999999Z", "final": False, "amount": 5e-324, "Name": ""},
    {"Name": "\\N\t\n\u2028 \U0001f680 \"';--", "more": '["\\u00e9","\U0001f680",{"a":[1.5,null,true]}]'},
]


@pytest.mark.parametrize("cells", ODD_CELLS)
def test_a_cell_is_read_as_it_was_stored_whichever_way_it_went(records, hold, cells):
    records.prepare(TARGET, hold)
    row = a_row(1, **cells)
    assert insert(records, hold, [row]) == 1
    (first,) = records.newest(TARGET, 10)
    records.delete_rows(TARGET)
    saving = _Saving(checkpoint, None, NOW)
    records._insert(TARGET, [[row]], hold, saving, Moments("2026-11-16T12:00:00.000000Z"), quickly=False)
    (second,) = records.newest(TARGET, 10)
    assert first | {"id": 0} == second | {"id": 0}
    assert {name: first[name] for name in cells if name not in ("at", "more")} == {
        name: cell for name, cell in cells.items() if name not in ("at", "more")
    }


def test_a_table_of_ours_whose_column_was_given_another_type_is_filled_all_the_same(postgres_world):
    world = postgres_world
    records = world.store.part(SourceRecords)
    world.sql("DROP TABLE IF EXISTS observations")
    hold = a_hold(world)
    records.prepare(TARGET, hold)
    world.sql("ALTER TABLE observations ALTER amount TYPE numeric, ALTER count TYPE text")
    records.prepare(TARGET, hold)
    assert (store_rows(records, hold, 1, 2), store_rows(records, hold, 2, 3)) == (2, 1)
    assert [row["count"] for row in records.newest(TARGET, 10)] == ["3", "2", "1"]


def test_columns_are_added_to_our_own_table(records, hold):
    records.prepare(TARGET, hold)
    store_rows(records, hold, 1)
    wider = replace(TARGET, columns=(*COLUMNS, MappedColumn("later", ColumnType.INTEGER)))
    assert records.look(wider).to_add == (MappedColumn("later", ColumnType.INTEGER),)
    records.prepare(wider, hold)
    records.insert(wider, [[(*a_row(2)[:-1], 7, b"hash-2")]], hold, checkpoint, NOW)
    assert [row["later"] for row in records.newest(wider, 10)] == [7, None]


def test_a_table_of_the_user_decides_itself_what_is_a_duplicate(world, records, hold):
    world.sql("CREATE TABLE theirs (source_name varchar(40), number integer UNIQUE, word varchar(20))")
    target = Target("gdp", "theirs", (MappedColumn("number", ColumnType.INTEGER), MappedColumn("word")))
    assert records.prepare(target, hold) == TableState(exists=True, ours=False)
    assert insert(records, hold, [(1, "a", "x"), (1, "b", "y"), (2, "c", "z")], target=target) == 2
    found = records.newest(target, 10)
    assert sorted((row["number"], row["word"]) for row in found) == [(1, "a"), (2, "c")]


def test_a_table_of_the_user_that_lacks_something_is_refused_with_what_it_lacks(world, records, hold):
    world.sql("CREATE TABLE theirs (number integer)")
    target = Target("gdp", "theirs", (MappedColumn("number", ColumnType.INTEGER), MappedColumn("word")))
    for ask in (records.look, lambda target: records.prepare(target, hold)):
        with pytest.raises(Invalid, match="it has no column source_name, word"):
            ask(target)


def test_beside_a_mapped_id_ours_has_another_name(records, hold):
    target = replace(TARGET, columns=(MappedColumn("id"), MappedColumn("Created_At", ColumnType.TIMESTAMP)))
    records.prepare(target, hold)
    rows = [("b", "2020-01-01T00:00:00.000000Z", b"2"), ("a", None, b"1")]
    assert insert(records, hold, rows, target=target) == 2
    newest, oldest = records.newest(target, 10)
    assert [(row["id"], row["ostinato_id"]) for row in (oldest, newest)] == [("b", 1), ("a", 2)]
    assert (oldest["Created_At"][:4], oldest["ostinato_created_at"][:4]) == ("2020", "2026")


def test_a_table_that_has_an_id_of_its_own_takes_no_other(records, hold):
    records.prepare(TARGET, hold)
    with pytest.raises(Invalid, match="choose another target, such as record_ID"):
        records.prepare(replace(TARGET, columns=(MappedColumn("ID"),)), hold)


@pytest.mark.parametrize(
    "table", ["ostinato_jobs", "jobs", "Retries", "sqlite_schema", "a b", 'x"y', "a.b.c", "pg_class"]
)
def test_no_definition_reaches_what_is_not_the_users(records, hold, table):
    with pytest.raises(Invalid, match="table must"):
        records.prepare(replace(TARGET, table=table), hold)


def test_the_schema_of_the_scheduler_is_never_written_to(postgres_world):
    records, hold = postgres_world.store.part(SourceRecords), a_hold(postgres_world)
    postgres_world.sql("SET search_path TO ostinato")
    try:
        records.prepare(replace(TARGET, table="by_role"), hold)
        (found,) = postgres_world.sql("SELECT schemaname::text FROM pg_tables WHERE tablename = 'by_role'")
        assert found == ("public",)
    finally:
        postgres_world.sql("RESET search_path")
        postgres_world.sql("DROP TABLE IF EXISTS public.by_role")


def test_two_sources_share_a_table_and_one_can_be_emptied(records, hold):
    other = replace(TARGET, source="other")
    records.prepare(TARGET, hold)
    records.prepare(other, hold)
    store_rows(records, hold, 1, 2)
    records.insert(other, [[a_row(3)]], hold, checkpoint, NOW)
    assert records.delete_rows(TARGET) == 2
    assert records.newest(TARGET, 10) == []
    assert len(records.newest(other, 10)) == 1


def test_the_greatest_value_of_a_column_of_the_source_itself(records, hold):
    records.prepare(TARGET, hold)
    store_rows(records, hold, 1, 30, 4)
    records.prepare(replace(TARGET, source="other"), hold)
    assert records.greatest(TARGET, COLUMNS[2]) == 30
    assert records.greatest(TARGET, COLUMNS[1]) == 30.1
    assert records.greatest(TARGET, COLUMNS[0]) == "2026-11-16"
    assert str(records.greatest(TARGET, COLUMNS[4])).startswith("2026-11-16")
    assert records.greatest(replace(TARGET, source="other"), COLUMNS[2]) is None


def test_many_make_the_same_table_at_once(world, records, hold):
    others = [world.another().part(SourceRecords) for _ in range(3)]
    together(*[lambda each=each: each.prepare(TARGET, hold) for each in others])
    assert records.look(TARGET).exists


def test_a_table_in_another_database_is_fenced_before_and_after(world, records, hold, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OTHER_DATABASE", f"sqlite:///{tmp_path}/other.db")
    monkeypatch.setattr(records.places, "_reach", Reach(folder=str(tmp_path)))
    there = replace(TARGET, database="env:SECRET_OTHER_DATABASE")
    assert records.newest(there, 10) == []
    assert not (tmp_path / "other.db").exists()  # only a run creates it
    records.prepare(there, hold)
    assert store_rows(records, hold, 1, 2, target=there) == 2
    assert len(records.newest(there, 10)) == 2
    assert not records.look(TARGET).exists
    with pytest.raises(LeaseLost):
        store_rows(records, hold._replace(fence=99), 3, target=there)
    assert len(records.newest(there, 10)) == 2


def test_a_lease_is_renewed_between_pages(world, records):
    worker = world.worker()
    world.enqueue()
    (claimed,) = world.claim(worker)
    hold = Hold(claimed.live.id, claimed.live.fence)
    records.prepare(TARGET, hold)
    for number in range(3):
        store_rows(records, hold, number)
        assert world.store.workers.renew(worker, world.advance(SECOND), LEASE, 1) is not None
