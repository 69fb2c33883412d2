"""`ostinato execution log`: page after page, and until the run has ended."""

import json
from datetime import datetime

import pytest

from ostinato.cli import executions, verbs
from ostinato.cli.client import ApiReply

AT = "2026-11-16T12:00:00.123456Z"


class Scripted:
    """A client behind which a run writes three lines while one looks on."""

    def __init__(self) -> None:
        self.lines = ["one", "two \x1b[31m", "three"]
        self.looks = 0
        self.asked: list[str] = []

    def send(self, request):
        self.asked.append(request.target)
        if not request.path.endswith("/log"):
            self.looks += 1
            return self._reply({"status": "running" if self.looks < 3 else "completed"})
        after = int(request.query.get("after") or 0)
        shown = self.lines[: self.looks or 3][after : after + 1]  # a page is one line; one more with each look
        lines = [
            {"number": after + n, "at": AT, "level": "info", "stream": "stdout", "text": text}
            for n, text in enumerate(shown, 1)
        ]
        return self._reply({"lines": lines, "next": after + len(lines), "cut": 1234})

    def _reply(self, answer):
        return ApiReply(200, json.dumps(answer).encode(), {})

    def close(self) -> None: ...


@pytest.fixture
def client(monkeypatch):
    scripted = Scripted()
    monkeypatch.setattr(verbs, "_client", lambda _: (scripted, lambda: None))
    monkeypatch.setattr(executions, "FOLLOW_INTERVAL", 0)
    return scripted


def texts(out):
    return [line.split("stdout", 1)[1].strip() for line in out.splitlines()]


def test_all_that_is_there(ostinato, client):
    client.looks = 9
    answer = ostinato("execution", "log", "x")
    assert (answer.code, texts(answer.out)) == (0, ["one", "two \\x1b[31m", "three"])
    at = f"{datetime.fromisoformat(AT).astimezone():%Y-%m-%d %H:%M:%S}.123"
    assert answer.out.splitlines()[0] == f"{at} stdout   one"
    assert answer.err == "The log was full: 1,234 more bytes were dropped.\n"


def test_following_ends_with_the_run_and_misses_nothing(ostinato, client):
    answer = ostinato("execution", "log", "-f", "x")
    assert texts(answer.out) == ["one", "two \\x1b[31m", "three"]
    assert client.looks == 3


def test_following_as_json_is_a_line_each(ostinato, client):
    answer = ostinato("execution", "log", "-f", "x", "--json")
    assert [json.loads(line)["text"] for line in answer.out.splitlines()] == client.lines
    assert answer.err == ""


def test_as_json_it_is_the_answer_of_the_api(ostinato, client):
    answer = json.loads(ostinato("execution", "log", "x", "--json").out)
    assert (answer["next"], answer["cut"]) == (1, 1234)
    assert client.asked == ["/api/v1/executions/x/log"]
