"""Answers as text: tables that fit, times as people read them, and nothing that speaks to the terminal."""

from datetime import UTC, datetime, timedelta

import pytest

from ostinato.cli import shown as run_shown
from ostinato.cli.output import (
    Column,
    FactsTable,
    Listing,
    Sentences,
    Several,
    absolute,
    at_length,
    in_black,
    in_colour,
    plain,
    relative,
    show,
    took,
    when,
)

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _in_paris(monkeypatch):
    """Whoever reads sits in Paris."""
    import time

    monkeypatch.setenv("TZ", "Europe/Paris")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def shown(what, width=80) -> list[str]:
    return list(what.lines(width, in_black))


ROWS = [
    {"id": "a" * 12, "name": "first [bold]", "note": "a rather long note that may be cut", "n": 5},
    {"id": "b" * 12, "name": "", "note": "short", "n": 12},
]
COLUMNS = (
    Column("Id", lambda row: row["id"]),
    Column("Name", lambda row: row["name"], spare=1),
    Column("Note", lambda row: row["note"], spare=2, cut=True),
    Column("N", lambda row: row["n"], right=True),
)


def test_a_table_shows_everything_where_there_is_room():
    assert shown(Listing(COLUMNS, ROWS, "")) == [
        "Id            Name          Note                                 N",
        "aaaaaaaaaaaa  first [bold]  a rather long note that may be cut   5",
        "bbbbbbbbbbbb                short                               12",
    ]


def test_what_may_be_cut_is_cut_first():
    assert shown(Listing(COLUMNS, ROWS, ""), 45)[1] == "aaaaaaaaaaaa  first [bold]  a rather lon…   5"


def test_then_what_can_be_spared_is_left_out():
    assert shown(Listing(COLUMNS, ROWS, ""), 36)[:2] == [
        "Id            Name           N",
        "aaaaaaaaaaaa  first [bold]   5",
    ]
    assert shown(Listing(COLUMNS, ROWS, ""), 20)[1] == "aaaaaaaaaaaa   5"


@pytest.mark.parametrize("width", [16, 20, 36, 45, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(map(len, shown(Listing(COLUMNS, ROWS, ""), width))) <= width


def test_a_column_that_says_nothing_is_left_out():
    rows = [{**row, "name": None} for row in ROWS]
    assert "Name" not in shown(Listing(COLUMNS, rows, ""))[0]


def test_a_table_without_rows_is_a_sentence():
    assert shown(Listing(COLUMNS, [], "There is nothing.")) == ["There is nothing."]


def test_wide_characters_are_as_wide_as_they_are():
    rows = [{"id": "日本語", "name": "x", "note": "", "n": 1}, {"id": "abc", "name": "y", "note": "", "n": 2}]
    assert shown(Listing(COLUMNS[:2], rows, ""))[1:] == ["日本語  x", "abc     y"]


def test_a_cell_is_one_line():
    rows = [{**ROWS[0], "name": "two\nlines\tand tabs"}]
    assert "two lines and tabs" in shown(Listing(COLUMNS, rows, ""), 100)[1]


def test_facts_leave_out_what_is_not_there():
    facts = FactsTable({"Key": None, "Name": "x", "Tags": [], "Zero": 0, "No": False, "Args": {"a": "ü"}})
    assert shown(facts) == ["Name  x", "Zero  0", "No    no", 'Args  {"a": "ü"}']


def test_the_name_of_a_state_has_its_colour_on_a_terminal():
    (line,) = FactsTable({"Status": "failed"}).lines(80, in_colour)
    assert [line] == ["\x1b[1mStatus\x1b[0m  \x1b[31mfailed\x1b[0m"]
    assert list(Listing(COLUMNS[:1], [{"id": "running"}], "").lines(80, in_colour))[1] == "\x1b[36mrunning\x1b[0m"


def test_a_pipe_gets_the_whole_text_without_colours(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    show(Listing(COLUMNS, [{"id": "failed", "name": "n" * 300, "note": "x", "n": 1}], ""))
    assert capsys.readouterr().out.splitlines()[1] == "failed  " + "n" * 300 + "  x     1"


def test_a_long_value_goes_on_below_itself():
    assert list(FactsTable({"Error": "ab" * 30, "N": 1}).lines(40, in_black)) == [
        "Error  " + "ab" * 16 + "a",
        "       b" + "ab" * 13,
        "N      1",
    ]


def test_a_long_sentence_is_the_terminals_to_wrap():
    assert shown(Sentences(["word " * 30]), 40) == ["word " * 30]


def test_several_stand_below_each_other():
    assert shown(Several([Sentences(["a", "b"]), Sentences([]), Sentences(["c"])])) == ["a", "b", "c"]


@pytest.mark.parametrize("words", ["\x1b[31mred", "\x07", "\x9b2J", "a\rb", "\u202egnp.exe", "\u2028"])
def test_nothing_speaks_to_the_terminal(words):
    assert all(character.isprintable() for character in plain(words))
    assert all(character.isprintable() for line in shown(FactsTable({"Name": words})) for character in line)


# -- times


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "now"), (0.5, "now"), (-0.5, "now"), (1, "in 1 s"), (-59, "59 s ago"), (60, "in 1 min"), (-3599, "59 min ago"),
     (3600, "in 1 h"), (-90000, "1 d ago"), (86400 * 400, "in 400 d")],
)  # fmt: skip
def test_relative(seconds, words):
    assert relative(timedelta(seconds=seconds)) == words


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("2026-11-16T11:00:00+00:00", "12:00:00"),
        ("2026-11-16T23:30:00+00:00", "Nov 17 00:30"),
        ("2026-07-01T10:00:00+00:00", "Jul 01 12:00"),
        ("2027-01-01T00:00:00+00:00", "2027-01-01 01:00"),
    ],
)
def test_absolute_in_the_zone_of_whoever_reads(at, words):
    assert absolute(datetime.fromisoformat(at), NOW) == words


def test_both_together():
    assert when("2026-11-16T12:30:00Z", NOW) == "in 30 min, 13:30:00"
    assert at_length("2026-11-16T12:30:00.5Z", NOW) == "2026-11-16 13:30:00 CET (in 30 min)"
    assert (when(None, NOW), at_length(None, NOW)) == ("–", "–")


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (None, "–"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1500, "1.5 s"),
        (61_000, "1 min 01 s"),
        (3_720_000, "1 h 02 min"),
    ],
)
def test_how_long_it_took(milliseconds, words):
    assert took(milliseconds) == words


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        ({"done": 30, "of": 120, "message": "orders"}, "30 of 120 (25%): orders"),
        ({"done": 2, "of": 4}, "2 of 4 (50%)"),
        ({"done": 1204, "message": "copying"}, "copying"),
        ({"done": 1204}, "1,204"),
        ({"counters": {"a": 1}}, None),
        (None, None),
    ],
)
def test_how_far_it_is(progress, words):
    assert run_shown._progress(progress) == words


def test_what_it_has_counted():
    assert run_shown._counted({"bytes_sent": 1204, "requests": 2}) == "bytes sent 1,204, requests 2"
    assert run_shown._counted(None) is None
