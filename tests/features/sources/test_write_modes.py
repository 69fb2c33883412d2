"""The modes of writing: whatever the API does between runs, and wherever a run dies, the table is true after the next.

The model of a table is a dict. Each mode has its own sentence about table and API, in `TRUE_OF`.
"""

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ostinato.core.builtin import Permits
from ostinato.core.errors import Invalid, LeaseLost
from ostinato.features.sources.databases import Reach
from ostinato.features.sources.fetch.page import PermanentFailure
from ostinato.features.sources.rows import Hold, SourceRecords
from ostinato.features.sources.rules import read_source
from ostinato.features.sources.service import SourceContext, SourceService
from tests.build import NOW
from tests.features.sources.played_runs import PlayedRuns, a_definition_of

MARKED = {"field": "gone", "equals": True}
MODES = {
    "insert": "insert",
    "upsert": "upsert",
    "upsert-absent": {"mode": "upsert", "deletions": "absent"},
    "upsert-marked": {"mode": "upsert", "deletions": MARKED},
    "replace": "replace",
    "history": "history",
    "history-absent": {"mode": "history", "deletions": "absent"},
    "history-marked": {"mode": "history", "deletions": MARKED},
}
KEYS = st.integers(1, 9)
VALUES = st.tuples(st.sampled_from([0.5, 1.0, 99.25]), st.sampled_from(["", "a", "it's"]))
STATES = st.dictionaries(KEYS, VALUES, max_size=8)
DEATHS = st.lists(st.tuples(st.integers(0, 45), st.booleans()), max_size=2)
LIVES = st.lists(st.tuples(STATES, DEATHS, st.randoms(use_true_random=False)), min_size=1, max_size=4)

THEIRS = (
    "CREATE TABLE theirs (source_name varchar(40), k bigint, v numeric(9,2), note varchar(9){more}, "
    "UNIQUE (k, source_name{key}))"
)


@pytest.fixture
def table(world, request):
    """Make the table of a case anew."""

    def table(kind, mode):
        for name in ("played", "theirs"):
            world.sql(f"DROP TABLE IF EXISTS {name}")
        if kind == "theirs":
            moment = "timestamptz" if world.on_postgres else "text"
            more = f", valid_from {moment}, valid_to {moment}" if mode.startswith("history") else ""
            world.sql(THEIRS.format(more=more, key=", valid_from" if more else ""))
        return "played" if kind == "ours" else "theirs"

    return table


def api_of(state, gone=()):
    known = [{"id": k, "value": v, "note": note} for k, (v, note) in state.items()]
    return known + [{"id": k, "gone": True} for k in gone]


def current(rows):
    """The current rows of a table, by key."""
    found = [row for row in rows if row.get("valid_to") is None]
    assert len({row["k"] for row in found}) == len(found), "no key twice"
    return {row["k"]: (float(row["v"]), row["note"]) for row in found}


@pytest.mark.parametrize("kind", ["ours", "theirs"])
@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(lives=LIVES)
def test_after_a_completed_run_the_table_is_true_of_the_api(world, table, kind, mode, lives):
    runs = PlayedRuns(world, a_definition_of(MODES[mode], table(kind, mode)))
    seen, before, as_of = {}, {}, []
    for state, deaths, chance in lives:
        order = list(state.items())
        chance.shuffle(order)
        state = dict(order)
        gone = [k for k in before if k not in state] if mode.endswith("marked") else []
        runs.records = api_of(state, gone)
        for k, version in state.items():
            seen.setdefault(k, set()).add(version)
        told = runs.run(*deaths)
        rows = runs.table()
        now = current(rows)
        TRUE_OF[mode](state, now, seen, before)
        assert told["items_indexed"] == told["inserted"] + told["updated"]
        if not deaths:
            _check_counters(mode, told, state, before, now, len(gone))
        before = now
        as_of.append((runs.live.started_at, dict(now)))
    if mode.startswith("history"):
        _check_history(runs.table(), as_of)


def equals_the_api(state, now, _seen, _before):
    assert now == state


def has_the_newest(state, now, seen, _before):
    assert {k: now[k] for k in state} == state
    assert all(version in seen[k] for k, version in now.items())


def has_the_first(state, now, seen, before):
    assert state.keys() <= now.keys()
    assert {k: now[k] for k in before} == before
    assert all(version in seen[k] for k, version in now.items())


TRUE_OF = {
    "insert": has_the_first,
    "upsert": has_the_newest,
    "upsert-absent": equals_the_api,
    "upsert-marked": equals_the_api,
    "replace": equals_the_api,
    "history": has_the_newest,
    "history-absent": equals_the_api,
    "history-marked": equals_the_api,
}


def _check_counters(mode, told, state, before, now, gone):
    new = len(state.keys() - before.keys())
    changed = sum(state[k] != before[k] for k in state.keys() & before.keys()) if mode != "insert" else 0
    deleted = len(before.keys() - now.keys())
    assert (told["inserted"], told["updated"], told["deleted"]) == (new, changed, deleted)
    assert told["unchanged"] == told["duplicates"] == len(state) - new - changed
    assert told["ignored"] == gone - deleted if mode.endswith("marked") else told["ignored"] == 0


def _check_history(rows, as_of):
    """Versions of a key follow each other, and the table as of each completed run is what it was then."""
    by_key = {}
    for row in rows:
        by_key.setdefault(row["k"], []).append((row["valid_from"], row["valid_to"] or "~"))
    for spans in by_key.values():
        spans.sort()
        assert all(begin < end for begin, end in spans)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
    for at, state in as_of:
        text = at.strftime("%Y-%m-%dT%H:%M:%S")
        then = [row for row in rows if row["valid_from"][:19] <= text < (row["valid_to"] or "~")[:19]]
        assert {row["k"]: (float(row["v"]), row["note"]) for row in then} == state


# -- one by one


def played(world, table, write, kind="ours", **more):
    mode = write if isinstance(write, str) else write["mode"]
    return PlayedRuns(world, a_definition_of(write, table(kind, mode), **more))


@pytest.mark.parametrize("mode", ["upsert", "history"])
@pytest.mark.parametrize("kind", ["ours", "theirs"])
def test_an_older_record_changes_nothing(world, table, mode, kind):
    runs = played(world, table, {"mode": mode, "newest": "v"}, kind)
    for value, note, changes in [(2, "two", 1), (1, "one", 0), (None, "none", 0), (2, "again", 1), (3, "three", 1)]:
        runs.records = [{"id": 1, "value": value, "note": note}]
        told = runs.run()
        assert told["inserted"] + told["updated"] == changes, note
    assert current(runs.table()) == {1: (3.0, "three")}
    runs.records = [{"id": 2, "value": v, "note": str(v)} for v in (5, 7, 6)]
    runs.run()
    assert current(runs.table())[2] == (7.0, "7"), "also within a page"


@pytest.mark.parametrize("write", ["replace", MODES["upsert-absent"], MODES["history-absent"]], ids=str)
def test_a_run_that_would_delete_too_much_changes_nothing_until_it_is_allowed(world, table, write):
    runs = played(world, table, write, limits={"maxDeleted": "40%"})
    runs.records = api_of(dict.fromkeys(range(1, 6), (1.0, "")))
    runs.run()
    runs.records = api_of(dict.fromkeys(range(1, 4), (2.0, "")))
    assert runs.run()["deleted"] == 2
    before = runs.table()
    runs.records = []
    with pytest.raises(PermanentFailure, match=r"3 of 3 rows of played would be deleted.*run played --allow-deletions"):
        runs.run()
    assert runs.table() == before
    assert runs.run(allow_deletions=True)["deleted"] == 3
    assert current(runs.table()) == {}


def test_a_source_leaves_the_rows_of_its_neighbour_alone(world, table):
    for mode in ("replace", "history", "upsert"):
        one = played(world, table, MODES.get(f"{mode}-absent", mode))
        other = PlayedRuns(world, {**one.definition, "name": "neighbour"})
        for runs, value in ((one, 1.0), (other, 2.0)):
            runs.records = api_of({1: (value, "")})
            runs.run()
        one.records = api_of({2: (3.0, "")})
        one.run(allow_deletions=True)
        assert (current(one.table()), current(other.table())) == ({2: (3.0, "")}, {1: (2.0, "")})


def test_a_table_made_by_insert_is_kept_true_by_upsert_from_then_on(world, table):
    runs = played(world, table, "insert")
    runs.records = api_of({1: (1.0, "a"), 2: (2.0, "b")})
    runs.run()
    later = PlayedRuns(world, a_definition_of("upsert"))
    later.records = api_of({1: (9.0, "a"), 2: (2.0, "b")})
    told = later.run()
    assert (told["inserted"], told["updated"]) == (0, 2), "the first run writes the digests"
    assert later.run()["unchanged"] == 2
    assert current(later.table()) == {1: (9.0, "a"), 2: (2.0, "b")}
    again = PlayedRuns(world, a_definition_of("insert"))
    again.records = api_of({3: (3.0, "c")})
    assert again.run()["inserted"] == 1


def test_marked_records_are_left_out_where_they_delete_nothing(world, table):
    for mode in ("insert", "replace"):
        runs = played(world, table, {"mode": mode, "deletions": MARKED})
        runs.records = api_of({1: (1.0, "")}, gone=[7])
        told = runs.run()
        assert (told["inserted"], told["ignored"], told["rejected"]) == (1, 1, 0)
        runs.records = [{"id": "odd", "value": 1}, *api_of({}, gone=[7]), *api_of({2: (1.0, "")})]
        if mode == "insert":
            assert (runs.run()["ignored"], runs.run()["rejected"]) == (1, 1), "also beside a rejected record"


def test_a_record_without_its_key_is_rejected(world, table):
    runs = played(world, table, "upsert", limits={"maxRejected": 1})
    runs.records = [{"value": 1.0}, *api_of({1: (1.0, "")})]
    told = runs.run()
    assert (told["inserted"], told["rejected"]) == (1, 1)
    assert "a part of its key is missing" in told["rejections"][0]["reason"]


@pytest.mark.parametrize("mode", ["upsert", "replace", "history"])
def test_a_table_of_the_user_needs_an_index_that_knows_a_record_again(world, table, mode):
    table("theirs", mode)
    world.sql("DROP TABLE theirs")
    moment = "timestamptz" if world.on_postgres else "text"
    world.sql(f"CREATE TABLE theirs (source_name text, k integer, v numeric, note text, valid_from {moment})")
    definition = a_definition_of(mode, "theirs")
    if mode == "history":
        with pytest.raises(PermanentFailure, match="theirs has no column valid_to"):
            PlayedRuns(world, definition).run()
        world.sql(f"ALTER TABLE theirs ADD COLUMN valid_to {moment}")
    with pytest.raises(PermanentFailure, match="CREATE UNIQUE INDEX theirs_records ON theirs") as refused:
        PlayedRuns(world, definition).run()
    world.sql(str(refused.value).partition("Run: ")[2])
    runs = PlayedRuns(world, definition)
    runs.records = api_of({1: (1.0, "")})
    assert runs.run()["inserted"] == 1


def test_a_row_that_another_index_refuses_fails_the_run_rather_than_being_lost(world, table):
    runs = played(world, table, "upsert", "theirs")
    world.sql("CREATE UNIQUE INDEX notes ON theirs (note)")
    runs.records = api_of({1: (1.0, "same"), 2: (2.0, "same")})
    with pytest.raises(PermanentFailure, match="There is one already"):
        runs.run()


def test_a_table_keeps_its_kind(world, table):
    for first, then in (("history", "upsert"), ("upsert", "history")):
        runs = played(world, table, first)
        runs.run()
        with pytest.raises(PermanentFailure, match="keeps its kind"):
            PlayedRuns(world, a_definition_of(then)).run()


def test_a_mapped_valid_to_makes_no_history(world, table):
    runs = played(world, table, "upsert")
    runs.definition["response"]["fields"] += [{"source": "from", "target": "valid_from"}, {"source": "valid_to"}]
    runs = PlayedRuns(world, runs.definition)
    for value in (1.0, 2.0):
        runs.records = [{"id": 1, "value": value, "note": "", "from": "x", "valid_to": "y"}]
        runs.run()
    (row,) = runs.table()
    assert (row["v"], row["valid_from"], row["valid_to"]) == (2.0, "x", "y")


def test_the_stage_of_a_deleted_source_is_dropped(new_app):
    app = new_app()
    service, database = app.scheduler.part(SourceService), app.parts.store.database
    service.create(a_definition_of("replace", table="staged"), SourceContext(permits=Permits()))
    records, target = app.parts.store.part(SourceRecords), service.get("played").source.target
    with records.places.writing(target) as (tx, place):
        stage = records._stage_name(target, place)
        tx.run(database.dialect.statement(f"CREATE TABLE {stage} (hash text)"))
    service.delete("played")
    with records.places.writing(target) as (tx, place):
        tx.run(database.dialect.statement(f"CREATE TABLE {stage} (hash text)"))
        tx.run(database.dialect.statement(f"DROP TABLE {stage}"))


@pytest.mark.parametrize("write", ["upsert", "replace", "history"])
def test_a_late_worker_is_refused_in_another_database_too(world, table, write, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OTHER_DATABASE", f"sqlite:///{tmp_path}/other.db")
    runs = played(world, table, write, database="env:SECRET_OTHER_DATABASE")
    monkeypatch.setattr(runs.rows.places, "_reach", Reach(folder=str(tmp_path)))
    runs.records = api_of(dict.fromkeys(range(1, 6), (1.0, "")))
    for deaths in ([], [(9, True)], [(14, False), (25, True)]):
        runs.records = api_of({k: (float(len(deaths)), "") for k in range(1, 6)})
        runs.run(*deaths)
        assert current(runs.table()) == {k: (float(len(deaths)), "") for k in range(1, 6)}
    late = Hold(runs.live.id, runs.live.fence, runs.job_id, runs.live.execution_number - 1)
    before = runs.table()
    with pytest.raises(LeaseLost):  # its check of the scheduler's database came before the newer run
        runs.rows.insert(runs.target, [[(1, 7.0, "", b"new", b"hash")]], late, lambda _: "{}", NOW, "2099")
    assert runs.table() == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"write": "merge"}, "write must be one of insert, upsert, replace, history"),
        ({"write": {"mode": "upsert", "newst": "v"}}, "did you mean newest"),
        ({"write": {"mode": "upsert", "newest": "w"}}, "'w' is not a target column"),
        ({"write": {"mode": "upsert", "newest": "note"}}, "note must be of the type"),
        ({"write": {"newest": "v"}}, "write.newest goes with upsert and history"),
        ({"write": {"deletions": "absent"}}, "insert deletes no rows"),
        ({"write": {"mode": "replace", "deletions": "absent"}}, "replace deletes these records by itself"),
        ({"write": {"mode": "upsert", "deletions": {"field": "a", "equals": [1]}}}, "equals must be a text"),
        ({"write": "upsert", "key": None}, "response.primaryKey is missing: upsert needs it"),
        ({"write": "replace", "incremental": {"param": "since", "from": "max(k)"}}, "cannot be used with incremental"),
        ({"write": "replace", "limits": {"onLimit": "stop"}}, "limits.onLimit: stop"),
        ({"write": "replace", "limits": {"maxRejected": 0.1}}, "limits.maxRejected must be 0"),
        ({"write": MODES["upsert-absent"], "limits": {"maxRejected": 0.1}}, "deletions: absent needs all records"),
    ],
)
def test_words_that_do_not_go_together_are_refused_with_their_field(changes, said):
    definition = a_definition_of(changes.pop("write"), **changes)
    if definition.pop("key", ...) is None:
        del definition["response"]["primaryKey"]
    with pytest.raises(Invalid, match=said):
        read_source(definition)


def test_unique_and_both_spellings_of_the_primary_key_mean_the_same():
    for name in ("unique", "primaryKey", "primary_key"):
        definition = a_definition_of("upsert")
        definition["response"][name] = definition["response"].pop("primaryKey")
        assert read_source(definition).target.key == ("k",)
    definition["response"]["unique"] = ["k"]
    with pytest.raises(Invalid, match="mean the same: leave one out"):
        read_source(definition)
