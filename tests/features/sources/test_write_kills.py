"""Servers that are killed while they write to a table: after the next completed run it is true of the API."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.hermes import PAGED, asking, create, rows_of, runs
from tests.acceptance.test_hermes_restarts import QUICKLY, Start, alive, start, until_asked  # noqa: F401  a fixture
from tests.played_api import Handler, PlayedApi, a_source_of
from tests.waiting import eventually

pytestmark = pytest.mark.system

RECORDS, PAGE = 400, 20
MODES = ["upsert", "replace", "history"]


class ChangingApi(PlayedApi):
    """Records of a version: each has it as its value, and a fifth of the records is missing."""

    version = 0

    def expected(self) -> dict[int, float]:
        return {number: float(self.version) for number in range(RECORDS) if number % 5 != self.version % 5}

    def page(self, handler: Handler) -> None:
        number = int(handler.query.get("page", 1))
        records = [{"id": each, "value": value, "name": "x"} for each, value in self.expected().items()]
        items = records[(number - 1) * PAGE : number * PAGE]
        handler.answer({"data": {"items": items}, "more": number * PAGE < len(records)})


@pytest.fixture
def api() -> Iterator[ChangingApi]:
    with ChangingApi() as api:
        api.bodies["/changing"] = api.page
        yield api


def killed_while_it_writes(start: Start, api: ChangingApi, rows: Any, mode: str, times: int) -> None:  # noqa: F811
    chance = random.Random(times)
    write = mode if mode == "replace" else {"mode": mode, "deletions": "absent"}
    definition = a_source_of(api.url("/changing"), path="data.items", pagination=PAGED | {"limit": PAGE}, write=write)
    server = start(**QUICKLY)
    job_id = create(server, definition | {"limits": {"maxDeleted": 1}})
    for _ in range(times):
        until_asked(api, server, job_id)
        time.sleep(chance.uniform(0, 0.4))  # in another process: wherever it may be by then
        server.kill()
        if mode == "replace" and rows_of(rows, "things"):
            assert rows("SELECT count(DISTINCT amount) FROM things")[0][0] <= 1, "readers see whole generations"
        api.version += 1
        server = start(**QUICKLY)
    until_asked(api, server, job_id)
    eventually(lambda: not alive(server, job_id))
    assert server("POST", f"/api/v1/jobs/{job_id}/run").code == 202
    eventually(lambda: not alive(server, job_id))
    assert runs(server, job_id)[-1]["outcome"] == "completed", runs(server, job_id)[-1]
    current = " WHERE valid_to IS NULL" if mode == "history" else ""
    assert dict(rows(f"SELECT number, amount FROM things{current}")) == api.expected()


@pytest.mark.parametrize("mode", MODES)
def test_killed_twice_the_table_is_true_after_the_next_run(start, api, database_url, mode):  # noqa: F811
    killed_while_it_writes(start, api, asking(database_url), mode, 2)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", MODES)
def test_killed_two_hundred_times(start, api, database_url, mode):  # noqa: F811
    killed_while_it_writes(start, api, asking(database_url), mode, 200)
