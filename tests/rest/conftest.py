"""The API around an app on either database, asked without a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from ostinato import Ostinato
from ostinato.core.access import Admission, Caller, Role
from ostinato.rest.app import create_app
from ostinato.telemetry.measures import RunTimes, StoreTimes
from ostinato.telemetry.process_metrics import EndedTotals, ProcessMetrics
from ostinato.telemetry.reports import Counts
from ostinato.wiring import build_api
from tests.app.conftest import NewApp, app, during, new_app

__all__ = ["app", "during", "new_app"]


class NoEngine:
    """What the API asks of an engine."""

    def troubles(self) -> list[str]:
        return []

    def measure(self) -> ProcessMetrics:
        return ProcessMetrics(Counts(), RunTimes(), StoreTimes(), EndedTotals())


class Client:
    """Asks the API; `api.get("/jobs")` is `GET /api/v1/jobs`."""

    def __init__(self, app: Ostinato, role: Role = Role.ADMIN) -> None:
        me = Caller("ann", role)
        self._client = TestClient(
            create_app(app.scheduler, app.settings, recognise=lambda _: Admission(me)),
            raise_server_exceptions=False,
        )

    def ask(self, method: str, path: str, **how: Any) -> Response:
        return self._client.request(method, f"/api/v1{path}", **how)

    def get(self, path: str, **how: Any) -> Any:
        return self.told(200, "GET", path, **how)

    def post(self, path: str, body: object = None, code: int = 200, **how: Any) -> Any:
        given = how if body is None else {"json": body, **how}
        return self.told(code, "POST", path, **given)

    def put(self, path: str, body: object, code: int = 200, **how: Any) -> Any:
        return self.told(code, "PUT", path, json=body, **how)

    def make(self, **words: Any) -> Any:
        return self.post("/jobs", words, 201)

    def told(self, code: int, method: str, path: str, **how: Any) -> Any:
        """The answer, if it has this status."""
        answer = self.ask(method, path, **how)
        assert answer.status_code == code, answer.text
        return answer.json()

    def refused(self, method: str, path: str, body: object = None, code: int = 422) -> str:
        """The sentence of a refusal."""
        how = {} if body is None else {"json": body}
        return str(self.told(code, method, path, **how)["detail"])


@pytest.fixture
def api(app: Ostinato) -> Client:
    for name in ("fine", "other"):
        app.register(name, lambda **args: {"good": True})
    app.register("bad", _bad)
    return Client(app)


def _bad() -> None:
    raise ValueError("boom")


@pytest.fixture
def as_role(app: Ostinato, api: Client) -> Callable[[Role], Client]:
    return lambda role: Client(app, role)


@pytest.fixture
def new_client(new_app: NewApp) -> Callable[..., TestClient]:
    """Make clients of the whole API, with auth; each with the desk behind it."""

    def make(**settings: Any) -> TestClient:
        app = new_app(**settings)
        client = TestClient(
            build_api(app.parts, app.scheduler, NoEngine()),
            base_url="http://127.0.0.1:8060",
            raise_server_exceptions=False,
        )
        client.service = app.scheduler
        return client

    return make


@pytest.fixture
def client(new_client: Callable[..., TestClient]) -> TestClient:
    return new_client()
