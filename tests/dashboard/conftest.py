"""The dashboard of an app on each database, used without a network, as by a browser without scripts."""

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
    """A visitor with a browser: it keeps cookies, follows no redirects, and sends the forms of a page."""

    def __init__(self, app: Ostinato, address: str = ADDRESS) -> None:
        site = build_api(app.parts, app.scheduler, NoEngine())
        self.app = app
        self.client = TestClient(site, base_url=address, follow_redirects=False, raise_server_exceptions=False)

    def ask(self, path: str, method: str = "GET", **how: Any) -> Response:
        return self.client.request(method, path, **how)

    def see(self, path: str, code: int = 200) -> str:
        """Return the page; assert its status."""
        answer = self.ask(path, headers={"accept": "text/html"})
        assert answer.status_code == code, answer.text
        return answer.text

    def token(self, path: str = "/login") -> str:
        """Return the token of a page's forms."""
        found = TOKEN.search(self.see(path))
        assert found is not None, f"{path} has no form"
        return found[1]

    def send(self, path: str, code: int = 303, *, on: str, **fields: Any) -> Response:
        """Send a form of the page `on`."""
        answer = self.ask(path, "POST", data={"form_token": self.token(on), **fields})
        assert answer.status_code == code, unescape(answer.text)
        return answer

    def follow(self, answer: Response) -> str:
        """Return the page to which an action redirects."""
        return self.see(answer.headers["location"])

    def log_in(self, role: Role) -> Visitor:
        """Log in with an API key of this role."""
        key = self.app.scheduler.keys.create(f"{role.value} ann", role)
        self.send("/login", on="/login", credential=key.text)
        return self


@pytest.fixture
def visitor(app: Ostinato) -> Visitor:
    """A visitor of a server without auth, on this host: it may do everything."""
    return Visitor(app)


@pytest.fixture
def stranger(new_app: Callable[..., Ostinato]) -> Visitor:
    """A visitor of a server with auth, not logged in yet."""
    return Visitor(new_app(auth_secret=SECRET))
