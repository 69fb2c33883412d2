"""Seed 001, the scheduler of workflows: every promise, against `ostinato serve`, on both databases, with our workers
and with those of RQ.

What takes time runs side by side: the schedules of one test are made together, and then waited for.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.acceptance.server import Server
from tests.valkey import Valkey
from tests.waiting import eventually

pytestmark = pytest.mark.system

SCHEMA = "seed_001"
SHORT = {
    "OSTINATO_LEASE_SECONDS": "3s", "OSTINATO_SWEEP_SECONDS": "1s", "OSTINATO_POLL_INTERVAL": "1s",
    "OSTINATO_SCHEMA": SCHEMA, "OSTINATO_RUN_LOG": "off",
}  # fmt: skip
AN_APP = """
import time
from pathlib import Path
from ostinato import Ostinato

app = Ostinato("seed")

@app.task
def note(into: str = "notes", told: object = None) -> str:
    with open(into, "a") as file:
        file.write(f"{told['repeat_number'] if told else ''}\\n")
    return "noted"

@app.task
def fails() -> None:
    raise ConnectionError("connection timeout")

@app.task
def holds(name: str) -> None:
    Path(f"{name}.started").touch()
    while not Path(f"{name}.go").exists():
        time.sleep(0.02)  # in another process
"""
TRIGGER = {"id": "t", "type": "trigger_schedule"}


def graph(name: str, task: str, /, **args: Any) -> dict[str, Any]:
    return {"name": name, "nodes": [TRIGGER, {"id": "n", "task": task, "after": ["t"], "args": args}]}


class Place:
    """A server, and with RQ as the engine a Redis and its workers; `place.ask` asks the server."""

    def __init__(self, folder: Path, url: str, engine: str) -> None:
        self.folder, self.url, self.engine = folder, url, engine
        self.valkey = Valkey() if engine == "rq" else None
        self.environment = dict(SHORT)
        if self.valkey is not None:
            self.environment |= {"OSTINATO_ENGINE": "rq", "OSTINATO_REDIS_URL": self.valkey.url}
        self.workers: list[subprocess.Popen[bytes]] = []
        self.server = self.serve()
        if self.valkey is not None:
            self.workers = [self.work() for _ in range(2)]

    def serve(self) -> Server:
        server = Server(self.folder, self.url, **self.environment)
        eventually(server.ready)
        return server

    def work(self) -> subprocess.Popen[bytes]:
        """An ordinary worker of RQ."""
        assert self.valkey is not None
        environment = os.environ | self.environment | {
            "OSTINATO_APP": "seed:app", "OSTINATO_DATABASE_URL": self.url, "PYTHONPATH": str(self.folder),
        }  # fmt: skip
        command = [
            str(Path(sys.executable).parent / "rq"), "worker", "default", "--with-scheduler", "--serializer", "json",
            "-w", "ostinato.rq.Worker", "--url", self.valkey.url,
        ]  # fmt: skip
        with (self.folder / f"rq-{uuid4()}").open("wb") as out:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def ask(self, method: str, path: str, body: object = None, code: int = 200) -> Any:
        answer = self.server(method, f"/api/v1{path}", body)
        assert answer.code == code, (method, path, answer)
        return answer.body

    def make(self, workflow: int, seconds: int = 1, **words: Any) -> str:
        made = {"name": "s", "workflow_id": workflow, "interval_seconds": seconds} | words
        return self.ask("POST", "/schedules/", made, 201)["id"]

    def get(self, schedule: str) -> Any:
        return self.ask("GET", f"/schedules/{schedule}/")

    def until(self, schedule: str, true: Callable[[Any], bool]) -> Any:
        """The schedule, once something is so about it."""

        def look() -> Any:
            self.revive()
            return (found,) if true(found := self.get(schedule)) else None

        return eventually(look)[0]

    def revive(self) -> None:
        """As a service manager does: RQ's workers may end when their Redis is killed."""
        self.workers = [each if each.poll() is None else self.work() for each in self.workers]

    def executions(self, schedule: str) -> list[Any]:
        found = self.ask("GET", f"/jobs/{schedule}/executions?limit=250")["executions"]
        return sorted(found, key=lambda each: (each["number"], each["retry_attempt"]))

    def close(self) -> None:
        self.server.kill()
        for name in ("held", "stopped"):  # what still holds ends
            (self.folder / f"{name}.go").touch()
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            try:
                worker.wait(20)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        if self.valkey is not None:
            self.valkey.close()


@pytest.fixture(
    scope="module",
    params=[
        ("sqlite", "local"),
        ("sqlite", "rq"),
        pytest.param(("postgres", "local"), marks=pytest.mark.postgres),
        pytest.param(("postgres", "rq"), marks=pytest.mark.postgres),
    ],
    ids=lambda each: "-".join(each),
)
def place(request, tmp_path_factory) -> Iterator[Place]:
    database, engine = request.param
    folder = tmp_path_factory.mktemp("pipelit")
    url = f"sqlite:///{folder}/ostinato.db"
    if database == "postgres":
        url = request.getfixturevalue("postgres_database")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    place = Place(folder, url, engine)
    yield place
    place.close()


@pytest.fixture(autouse=True, scope="module")
def _an_app() -> Iterator[None]:
    before, Server.APP = Server.APP, AN_APP
    yield
    Server.APP = before


@pytest.fixture(scope="module")
def workflows(place) -> dict[str, int]:
    """The workflows of these tests, by name."""
    told = {"$ref": "trigger"}
    graphs = [
        graph("note", "note", into="notes", told=told),
        graph("fails", "fails"),
        graph("holds", "holds", name={"$ref": "payload.name"}),
    ]
    return {each["name"]: place.ask("POST", "/workflows", each, 201)["id"] for each in graphs}


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_every_endpoint_and_the_state_machine(place, workflows):
    made = place.ask(
        "POST", "/schedules/",
        {
            "name": "Daily report", "workflow_id": workflows["note"], "trigger_node_id": "t", "interval_seconds": 86400,
            "total_repeats": 0, "max_retries": 3, "timeout_seconds": 600, "trigger_payload": {"report_type": "daily"},
        }, 201,
    )  # fmt: skip
    one = f"/schedules/{made['id']}"
    assert made["status"] == "active"
    assert instant(made["next_run_at"]) - instant(made["created_at"]) == timedelta(days=1)
    assert place.ask("GET", f"{one}/") == place.ask("GET", one)
    listed = place.ask("GET", f"/schedules/?workflow_id={workflows['note']}&status=active")
    assert (listed["total"], listed["items"][0]["id"]) == (1, made["id"])
    assert place.ask("PATCH", f"{one}/", {"interval_seconds": 3600})["interval_seconds"] == 3600
    assert "active" in place.ask("POST", f"{one}/resume/", code=400)["detail"]
    paused = place.ask("POST", f"{one}/pause/")
    assert (paused["status"], paused["next_run_at"]) == ("paused", None)
    assert "paused" in place.ask("POST", f"{one}/pause/", code=400)["detail"]
    for _ in range(10):  # never two chains
        place.ask("POST", f"{one}/resume/")
        place.ask("POST", f"{one}/pause/")
    resumed = place.ask("POST", f"{one}/resume/")
    assert instant(resumed["next_run_at"]) - instant(resumed["updated_at"]) == timedelta(hours=1)
    assert place.ask("GET", f"/jobs/{made['id']}")["task"] == "workflow"
    if place.valkey is not None:
        with place.valkey.client() as redis:
            mine = [key for key in redis.zrange("rq:scheduled:default", 0, -1) if made["id"].encode() in key]
            assert mine == [f"sched-{made['id']}-n1-rc0".encode()]
    others = [place.make(workflows["note"], 3600) for _ in range(2)]
    assert place.server("DELETE", f"/api/v1{one}/").code == 204
    assert place.server("POST", "/api/v1/schedules/batch-delete/", {"schedule_ids": others}).code == 204
    place.ask("GET", f"{one}/", code=404)
    place.ask("POST", "/schedules/", {"name": "x", "workflow_id": 999, "interval_seconds": 1}, 404)
    wrong = {"name": "x", "workflow_id": workflows["note"], "interval_seconds": 0}
    assert "interval_seconds must be >= 1" in place.ask("POST", "/schedules/", wrong, 422)["detail"]


def test_runs_repeats_backoff_death_overlap_pause_and_recovery(place, workflows):
    three = place.make(workflows["note"], total_repeats=3, trigger_payload={"a": 1})
    dying = place.make(workflows["fails"], max_retries=2)
    held = place.make(workflows["holds"], trigger_payload={"name": "held"})
    broken = place.make(workflows["note"], 3600)
    place.ask("POST", f"/jobs/{broken}/run", {"args": {"workflow": workflows["note"], "trigger": "gone"}}, 202)

    # `done` after exactly three successes, told by numbers from 0
    done = place.until(three, lambda each: each["status"] == "done")
    assert (done["run_count"], done["current_repeat"], done["next_run_at"]) == (3, 3, None)
    assert (done["last_error"], done["error_count"]) == ("", 0)
    assert (place.folder / "notes").read_text().split() == ["0", "1", "2"]
    first = instant(place.executions(three)[0]["due_at"])
    assert first - instant(done["created_at"]) == timedelta(seconds=1)

    # dead after 1 + max_retries failures in a row, with the backoff of the seed: 1, 2 s
    dead = place.until(dying, lambda each: each["status"] == "dead")
    assert (dead["error_count"], dead["run_count"], dead["next_run_at"]) == (3, 0, None)
    assert "connection timeout" in dead["last_error"]
    tries = place.executions(dying)
    assert [(each["number"], each["retry_attempt"]) for each in tries] == [(1, 0), (1, 1), (1, 2)]
    waits = [instant(after["run_at"]) - instant(before["completed_at"]) for before, after in pairwise(tries)]
    assert [round(wait.total_seconds(), 3) for wait in waits] == [1, 2]

    # a trigger that does not exist is a failure of the run
    failed = place.until(broken, lambda each: each["error_count"] > 0)
    assert "No matching trigger" in failed["last_error"]

    # while a run is under way, due times are skipped and no counter moves; pause lets it finish and starts no more
    eventually(lambda: (place.folder / "held.started").exists())
    eventually(lambda: place.ask("GET", f"/jobs/{held}/skips")["skipped"] >= 2)
    now = place.get(held)
    assert (now["status"], now["run_count"], now["error_count"], now["current_retry"]) == ("active", 0, 0, 0)
    paused = place.ask("POST", f"/schedules/{held}/pause/")
    assert (paused["status"], paused["next_run_at"]) == ("paused", None)
    (place.folder / "held.go").touch()
    finished = place.until(held, lambda each: each["run_count"] == 1)
    assert (finished["status"], len(place.executions(held))) == ("paused", 1)

    # restart begins as new, with the counters at 0; fewer repeats than are done end it at the next success
    again = place.ask("POST", f"/schedules/{three}/restart/")
    assert (again["status"], again["run_count"], again["current_repeat"]) == ("active", 0, 0)
    place.until(three, lambda each: each["run_count"] >= 2)
    place.ask("PATCH", f"/schedules/{three}/", {"total_repeats": 1})
    ended = place.until(three, lambda each: each["status"] == "done")
    assert ended["run_count"] >= 3
    assert "done" in place.ask("POST", f"/schedules/{three}/pause/", code=400)["detail"]

    # what was due while nobody was there runs when somebody comes: the newest of it, once
    absent = place.make(workflows["note"], 2)
    place.server.kill()
    if place.valkey is not None:
        place.valkey.kill()  # and Redis has forgotten everything
        place.valkey.start()
    place.server = place.serve()
    place.until(absent, lambda each: each["run_count"] >= 1)
    place.ask("POST", f"/schedules/{absent}/pause/")
    runs = place.executions(absent)
    assert len({each["number"] for each in runs if each["status"] == "completed"}) == sum(
        each["status"] == "completed" for each in runs
    )


def test_cancel_stops_a_run(place, workflows):
    schedule = place.make(workflows["holds"], 3600, trigger_payload={"name": "stopped"})
    place.ask("POST", f"/jobs/{schedule}/run", code=202)
    eventually(lambda: (place.folder / "stopped.started").exists())
    place.ask("POST", f"/jobs/{schedule}/cancel")
    if place.engine == "local":
        (place.folder / "stopped.go").touch()  # a thread cannot be killed
    eventually(lambda: place.ask("GET", f"/jobs/{schedule}/executions")["executions"][0]["status"] == "cancelled")
    assert place.get(schedule)["status"] == "dead"
