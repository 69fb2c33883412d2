"""`ostinato preview`."""

import json

import pytest

PARIS = ("--timezone", "Europe/Paris", "--after", "2026-11-16T00:00:00Z")


def test_instants_as_json_in_utc(ostinato):
    answer = ostinato("preview", "0 9 * * mon-fri", *PARIS, "-n", "5", "--json")
    assert answer.code == 0
    assert json.loads(answer.out) == [f"2026-11-{day}T08:00:00Z" for day in (16, 17, 18, 19, 20)]


def test_a_table_with_a_sentence_in_the_zone_and_in_utc(ostinato):
    answer = ostinato("preview", "0 9 * * mon-fri", *PARIS, "-n", "2")
    lines = [line.rstrip() for line in answer.out.splitlines()]
    assert lines == [
        "At 09:00 on weekdays, Europe/Paris.",
        "Europe/Paris             UTC",
        "Mon 2026-11-16 09:00:00  2026-11-16T08:00:00Z",
        "Tue 2026-11-17 09:00:00  2026-11-17T08:00:00Z",
    ]


@pytest.mark.parametrize(
    ("schedule", "times"),
    [
        ("30m", ["2026-11-16T00:30:00Z", "2026-11-16T01:00:00Z"]),
        ("every 6 hours", ["2026-11-16T06:00:00Z", "2026-11-16T12:00:00Z"]),
        ("90", ["2026-11-16T00:01:30Z", "2026-11-16T00:03:00Z"]),
        ("@daily", ["2026-11-17T00:00:00Z", "2026-11-18T00:00:00Z"]),
        ("0 0 L * *", ["2026-11-30T00:00:00Z", "2026-12-31T00:00:00Z"]),
        ("2026-12-24T18:00:00+01:00", ["2026-12-24T17:00:00Z"]),
        ("2020-01-01T00:00:00Z", []),
        ("manual", []),
    ],
)
def test_every_way_to_write_a_schedule(ostinato, schedule, times):
    answer = ostinato("preview", schedule, "--after", "2026-11-16T00:00:00Z", "-n", "2", "--json")
    assert (answer.code, json.loads(answer.out)) == (0, times)


def test_a_schedule_without_times_says_so(ostinato):
    answer = ostinato("preview", "manual")
    assert (answer.code, answer.out) == (0, "Only by hand.\nNo due times after that.\n")


def test_the_zone_of_the_settings_is_the_default(ostinato, monkeypatch):
    monkeypatch.setenv("OSTINATO_TIMEZONE", "Asia/Tokyo")
    answer = ostinato("preview", "0 9 * * *", "--after", "2026-11-16T00:00:00Z", "-n", "1", "--json")
    assert json.loads(answer.out) == ["2026-11-17T00:00:00Z"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["0 0 30 2 *"], "it can never fire"),
        (["61 * * * *"], "61 * * * *"),
        (["30x"], "'30x' is not a duration"),
        (["nonsense"], "'nonsense' is not a schedule"),
        ([""], "is not a schedule"),
        (["0s"], "The shortest interval is 1 second"),
        (["@daily", "--timezone", "Europe/Pairs"], "did you mean Europe/Paris"),
        (["30m", "--after", "tomorrow"], "--after 'tomorrow' is not an instant"),
        (["30m", "--after", "2026-11-16T00:00:00"], "has no time zone"),
        (["30m", "--after", "0001-01-01T00:00:00+23:00"], "goes beyond the calendar"),
        (["30m", "-n", "0"], "-n is a number from 1 to 1000, not 0"),
        (["30m", "-n", "many"], "Invalid value for '-n'"),
        (["30m", "--frob"], "No such option: --frob"),
        ([], "Missing argument"),
    ],
    ids=str,
)
def test_what_is_wrong_is_one_sentence_and_exit_code_2(ostinato, arguments, sentence):
    answer = ostinato("preview", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert sentence in answer.err
    assert len(answer.err.splitlines()) == 1
