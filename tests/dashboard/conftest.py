"""The dashboard around an app on either database, asked without a network, as a browser without scripts would."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from ostinato import Ostinato
from ostinato.core.access import Role
from ostinato.wiring import build_api
from tests.app.conftest import app, during, new_app
from tests.rest.conftest import NoEngine

__all__ = ["app", "during", "new_app"]

TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')
SECRET = "a secret of at least 32 bytes, for tests"
ADDRESS = "http://127.0.0.1:8060"


class Visitor:
    """Somebody with a browser: keeps cookies, follows nothing by itself, sends forms as their page has them."""

    def __init__(self, app: Ostinato, address: str = ADDRESS) -> None:
        site = build_api(app.parts, app.scheduler, NoEngine())
        self.app = app
        self.client = TestClient(
            site, base_url=address, follow_redirects=False, raise_server_exceptions=False
        )

    def ask(self, path: str, method: str = "GET", **how: Any) -> Response:
        return self.client.request(method, path, **how)

    def see(self, path: str, code: int = 200) -> str:
        """The page, if it has this status."""
        answer = self.ask(path, headers={"accept": "text/html"})
        assert answer.status_code == code, answer.text
        return answer.text

    def token(self, path: str = "/login") -> str:
        """What the forms of a page carry."""
        found = TOKEN.search(self.see(path))
        assert found is not None, f"{path} has no form"
        return found[1]

    def send(self, path: str, code: int = 303, *, on: str, **fields: Any) -> Response:
        """Send a form of the page `on`."""
        answer = self.ask(path, "POST", data={"form_token": self.token(on), **fields})
        assert answer.status_code == code, unescape(answer.text)
        return answer

    def follow(self, answer: Response) -> str:
        """The page that an action leads to."""
        return self.see(answer.headers["location"])

    def log_in(self, role: Role) -> Visitor:
        """With an API key of this role."""
        key = self.app.scheduler.keys.create(f"{role.value} ann", role)
        self.send("/login", on="/login", credential=key.text)
        return self


@pytest.fixture
def visitor(app: Ostinato) -> Visitor:
    """Where no credential is asked for, on this host: may do everything."""
    return Visitor(app)


@pytest.fixture
def stranger(new_app: Callable[..., Ostinato]) -> Visitor:
    """Where a credential is asked for; not logged in yet."""
    return Visitor(new_app(auth_secret=SECRET))
