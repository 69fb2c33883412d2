"""`ostinato hook …` and `ostinato queue bound`: directly and by a server."""

import pytest

from tests.cli.places import the_json

PLACES = ("direct-sqlite", "server-postgres")
URL = "https://hooks.example.org/T0/1"


def test_a_hook_is_added_listed_tested_and_deleted(at):
    hook = the_json(
        at("hook", "add", URL, "--kind", "failure", "--kind", "recovery", "--secret", "env:SECRET_HOOK",
           "--late-after", "5m", "--threshold", "success_rate:80:1h", "--description", "ops", "--json")
    )  # fmt: skip
    assert (hook["kinds"], hook["late_after"]) == (["failure", "recovery"], "5m")
    assert hook["thresholds"] == [{"measure": "success_rate", "limit": 80.0, "window": "1h", "least": 10}]
    assert URL in at("hook", "list").out
    assert "failure, recovery, success_rate 80 in 1h" in at("hook", "show", hook["id"]).out
    assert "waits for a worker to send it" in at("hook", "test", hook["id"]).out
    assert "test" in at("hook", "deliveries", hook["id"], "--state", "pending").out
    refused = at("hook", "delete", hook["id"])
    assert (refused.code, "confirm with --yes" in refused.err) == (2, True)
    assert at("hook", "delete", hook["id"], "--yes").code == 0
    assert at("hook", "show", hook["id"]).code == 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((URL,), "kinds"),
        ((URL, "--kind", "nonsense"), "kinds"),
        ((URL, "--threshold", "success_rate"), "such as success_rate:80:1h"),
        (("nowhere", "--kind", "failure"), "url"),
    ],
)
def test_a_hook_that_cannot_be_is_refused_in_a_sentence(at, words, says):
    answer = at("hook", "add", *words)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err


def test_a_queue_is_bounded_and_unbounded(at):
    assert at("queue", "bound", "narrow", "5").out == "The queue narrow takes up to 5 runs from the schedule.\n"
    queues = the_json(at("queue", "list", "--json"))["queues"]
    assert [each["max_queued"] for each in queues if each["name"] == "narrow"] == [5]
    assert the_json(at("queue", "bound", "narrow", "--off", "--json"))["max_queued"] is None
    assert at("queue", "bound", "narrow").code == 2
    assert at("queue", "bound", "narrow", "0").code == 2
