"""Incremental sources: what they ask for, how far they have read, and that no record is missed wherever a run dies."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ostinato.core.builtin import Permits
from ostinato.core.errors import Conflict, Invalid
from ostinato.features.sources.rules import read_source
from ostinato.features.sources.rules.windows import first_window, read_cell, written
from ostinato.features.sources.service import SourceContext, SourceService
from ostinato.features.sources.states import SourceStates
from tests.features.sources.played_runs import PAGE, PlayedRuns, a_definition_of

BEGINNING = datetime(2026, 11, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
BY_TIME = {"cursor": "at", "startParam": "since", "start": "2026-11-01"}
WINDOWS = BY_TIME | {"endParam": "until", "window": "6h"}
ORDERS = {
    "unsorted": (BY_TIME, None),
    "ascending": (BY_TIME | {"order": "ascending"}, False),
    "descending": (BY_TIME | {"order": "descending"}, True),
    "windows": (WINDOWS, None),
    "divided": (WINDOWS | {"window": "10d", "splitAt": 4}, None),
    "epoch": (BY_TIME | {"endParam": "header:X-Until", "format": "epoch_ms"}, None),
}


class ApiByTime(PlayedRuns):
    """An API with `since` and `until`, both inclusive, and records in an order of its own."""

    reverse = None  # None: by id

    def answer(self, asked):
        since, until = (self.read(asked.get(name)) for name in ("since", "until" if "until" in asked else "X-Until"))
        self.asked.append((since, until))
        found = [
            each for each in self.records
            if (since is None or each["at"] >= since) and (until is None or each["at"] <= until)
        ]  # fmt: skip
        return found if self.reverse is None else sorted(found, key=lambda each: each["at"], reverse=self.reverse)

    @staticmethod
    def read(value):
        if value is None:
            return None
        if value.isdigit():
            value = datetime.fromtimestamp(int(value) / 1000, UTC).isoformat()
        at = datetime.fromisoformat(value)
        return at.replace(tzinfo=at.tzinfo or UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def by_time(world, incremental, write="upsert", reverse=None):
    definition = a_definition_of(write, incremental=incremental)
    definition["response"]["fields"].append({"source": "at", "target": "at", "type": "timestamp"})
    runs = ApiByTime(world, definition)
    runs.reverse, runs.asked = reverse, []
    return runs


def a_record(number, hours, value=0.5):
    at = (BEGINNING + hours * HOUR).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"id": number, "value": value, "note": "", "at": at}


@pytest.fixture
def table(world):
    world.sql("DROP TABLE IF EXISTS played")


CHANGES = st.lists(st.dictionaries(st.integers(1, 14), st.sampled_from([0.5, 1.0, 2.0]), max_size=9), max_size=3)
DEATHS = st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=2)


@pytest.mark.parametrize("kind", ORDERS)
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(changes=CHANGES, deaths=DEATHS)
def test_every_change_arrives_though_only_new_records_are_asked_for(world, kind, changes, deaths):
    world.sql("DROP TABLE IF EXISTS played")
    incremental, reverse = ORDERS[kind]
    runs = by_time(world, incremental, reverse=reverse)
    world.now, api = BEGINNING + 24 * HOUR, {}
    for number, change in enumerate([{1: 0.5}, *changes]):
        for place, (key, value) in enumerate(change.items()):  # each change has its own second of the last hour
            at = world.now - HOUR + timedelta(seconds=7 * place)
            api[key] = {"id": key, "value": value, "note": "", "at": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
        runs.records = list(api.values())
        runs.run(*(deaths if number else []))
        assert {row["k"]: row["v"] for row in runs.table()} == {key: each["value"] for key, each in api.items()}
        world.advance(2 * HOUR)
    assert all(since is not None for since, _ in runs.asked)


def test_the_state_is_the_greatest_value_and_the_next_run_asks_from_there(world, table):
    runs = by_time(world, BY_TIME)
    world.now = BEGINNING + 24 * HOUR
    runs.records = [a_record(number, number) for number in (5, 9, 2, 7)]
    runs.run()
    assert runs.asked[0] == ("2026-11-01T00:00:00Z", None)
    runs.run()
    assert runs.asked[-1] == ("2026-11-01T09:00:00Z", None)
    runs.records.append(a_record(99, 500))  # from the future
    runs.run()
    runs.run()
    assert runs.asked[-1][0] < world.now.isoformat(), "the state is never beyond the beginning of a run"


def test_a_window_that_is_complete_is_not_asked_for_again(world, table):
    runs = by_time(world, WINDOWS)
    world.now = BEGINNING + 20 * HOUR
    runs.records = [a_record(number, number) for number in range(20)]
    runs.run((50, False))
    asked = [since[11:13] for since, _ in runs.asked]
    assert asked.count("00") == 3, "its three pages, though the run began anew"
    assert max(map(asked.count, asked)) > 3
    assert {row["k"] for row in runs.table()} == set(range(20))
    assert {(since[11:13], until[11:13]) for since, until in runs.asked} >= {("00", "06"), ("06", "12"), ("12", "18")}


def test_a_window_with_too_many_records_is_divided_down_to_a_second(world, table):
    runs = by_time(world, WINDOWS | {"window": "1d", "splitAt": 2 * PAGE})
    world.now = BEGINNING + 20 * HOUR
    runs.records = [a_record(number, number / 4) for number in range(40)]
    runs.run()
    assert {row["k"] for row in runs.table()} == set(range(40))
    runs.records = [a_record(number, 30) for number in range(7)]
    world.now = BEGINNING + 40 * HOUR
    with pytest.raises(
        Exception, match=r"incremental\.splitAt: there are 6 records or more.*cannot be divided further"
    ):
        runs.run()


def test_an_api_that_sorts_the_newest_first_is_read_to_the_first_old_page(world, table):
    runs = by_time(world, BY_TIME | {"order": "descending"}, reverse=True)
    world.now = BEGINNING + 24 * HOUR
    runs.records = [a_record(number, number) for number in range(20)]
    runs.run()
    runs.read, before = lambda _: None, len(runs.asked)  # an API that does not filter
    runs.run()
    assert len(runs.asked) - before == 2, "the page of the state, and an older one"


def test_the_lookback_asks_for_older_records_and_never_moves_the_state_back(world, table):
    runs = by_time(world, WINDOWS | {"lookback": "10h", "window": "2h"})
    states = world.store.part(SourceStates)
    world.now = BEGINNING + 24 * HOUR
    runs.run()
    before = states.get(runs.job_id)
    runs.asked.clear()
    runs.run((12, False))
    assert runs.asked[0][0] < before[:19]
    assert states.get(runs.job_id) >= before


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("", "2026-11-01T12:30:00Z"),
        ("iso", "2026-11-01T12:30:00Z"),
        ("date", "2026-11-01"),
        ("epoch", "1793536200"),
        ("epoch_ms", "1793536200000"),
        ("epoch_us", "1793536200000000"),
        ("%d/%m/%Y", "01/11/2026"),
    ],
)
def test_a_bound_is_written_as_the_api_wants_it(form, text):
    asked = an_incremental(format=form)
    assert str(written(read_cell("2026-11-01T13:30:00+01:00", asked), asked)) == text


def an_incremental(**changes):
    definition = a_definition_of("upsert", incremental=BY_TIME | changes)
    definition["response"]["fields"].append({"source": "at", "target": "at", "type": "timestamp"})
    return read_source(definition).incremental


def test_a_source_that_has_reached_its_end_asks_for_nothing():
    asked = an_incremental(endParam="until", end="2026-11-05")
    late = read_cell("2026-11-05T00:00:01Z", asked)
    assert first_window(asked, late, BEGINNING + 1000 * HOUR) is None
    window = first_window(asked, None, BEGINNING + 1000 * HOUR)
    assert (window.start[:10], window.end[:10]) == ("2026-11-01", "2026-11-05")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cursor": "nobody"}, "'nobody' is not a target column"),
        ({"startParam": None}, "incremental.startParam is missing"),
        ({"window": "1h"}, "incremental.window needs endParam"),
        ({"endParam": "until", "window": "1h", "start": None}, "incremental.start is missing"),
        ({"endParam": "until", "window": "1ms"}, "at least a second"),
        ({"start": "yesterday"}, "incremental.start: 'yesterday' is not an instant"),
        ({"format": "unix"}, "incremental.format must be one of iso, date, epoch"),
        ({"startParam": "header:Host"}, "incremental.startParam: Host"),
        ({"order": "up"}, "incremental.order must be one of none, ascending, descending"),
        ({"cursor": "k", "endParam": "until", "start": 1}, "incremental.end is missing"),
        ({"cursor": "k", "start": 1, "format": "epoch"}, "incremental.format is for times"),
        ({"cursor": "k", "start": 1, "lookback": "1d"}, "incremental.lookback: k is of the type integer"),
    ],
)
def test_words_that_do_not_go_together_are_refused_with_their_field(changes, said):
    wanted = {name: value for name, value in {**BY_TIME, **changes}.items() if value is not None}
    definition = a_definition_of("upsert", incremental=wanted)
    definition["response"]["fields"].append({"source": "at", "target": "at", "type": "timestamp"})
    with pytest.raises(Invalid, match=said):
        read_source(definition)


# -- a person sees it, sets it and resets it


@pytest.fixture
def source(new_app):
    service = new_app().scheduler.part(SourceService)
    definition = a_definition_of("upsert", incremental=BY_TIME)
    definition["response"]["fields"].append({"source": "at", "target": "at", "type": "timestamp"})
    service.create(definition, SourceContext(permits=Permits()))
    return service


def test_a_state_is_set_and_reset(source):
    assert source.states("played") == []
    assert source.set_state("played", "2026-11-05").cursor == "2026-11-05T00:00:00.000000Z"
    (state,) = source.states("played")
    assert (state.part, state.cursor) == ("", "2026-11-05T00:00:00.000000Z")
    with pytest.raises(Invalid, match="cursor: 'soon' is not an instant"):
        source.set_state("played", "soon")
    assert (source.reset_state("played"), source.reset_state("played")) == (1, 0)
    assert source.states("played") == []


def test_a_state_is_not_touched_while_a_run_is_in_progress(world, table):
    runs = by_time(world, BY_TIME)
    states = world.store.part(SourceStates)
    for change in (lambda: states.set(runs.job_id, "x", world.now), lambda: states.reset(runs.job_id)):
        with pytest.raises(Conflict, match="A run of this source is in progress"):
            change()


def test_a_source_without_a_cursor_has_no_state_to_set(new_app):
    service = new_app().scheduler.part(SourceService)
    service.create(a_definition_of("upsert"), SourceContext(permits=Permits()))
    with pytest.raises(Conflict, match="has no state: write `incremental` with a `cursor`"):
        service.set_state("played", 1)


def test_a_state_goes_over_http(api):
    definition = a_definition_of("upsert", incremental=BY_TIME)
    definition["response"]["fields"].append({"source": "at", "target": "at", "type": "timestamp"})
    api.post("/sources", definition, 201)
    where = "/sources/played/state"
    assert api.get(where) == {"states": []}
    assert api.put(where, {"cursor": "2026-11-05"})["cursor"].startswith("2026-11-05")
    assert "cursor: 'soon' is not an instant" in api.refused("PUT", where, {"cursor": "soon"})
    assert len(api.get(where)["states"]) == 1
    gone = {"message": "Source played begins anew with its next run.", "forgotten": 1}
    assert api.told(200, "DELETE", where) == gone
