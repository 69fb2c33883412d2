"""Every role × every route: the routes from the route table itself, the roles from one table, the ids real."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from ostinato.core.access import Role
from ostinato.wiring import build_api
from tests.dashboard.conftest import ADDRESS, SECRET, Visitor
from tests.rest.conftest import NoEngine
from tests.role_table import OPEN, Route, Things, table

FORBIDDEN, UNAUTHORIZED, SEE_OTHER = 403, 401, 303
DONE = {200, 201, 202, 204, 303}
NOT_IN_THIS_STATE = {400, 409}


def is_api(route: Route) -> bool:
    return route[1].startswith(("/api/", "/docs", "/openapi.json", "/metrics", "/healthz", "/readyz"))


def allowed(route: Route) -> set[int]:
    """The statuses of a permitted request; forms and the test of a source are sent incomplete."""
    word = route[1].rstrip("/").rpartition("/")[2]
    in_another_state = NOT_IN_THIS_STATE if word in ("resume", "retry", "restart") else set()
    incomplete = {422} if route[0] == "POST" and (not is_api(route) or word == "test") else set()
    return DONE | in_another_state | incomplete


class Town:
    """A server with auth, somebody of each role, with a key and with a browser."""

    def __init__(self, new_app) -> None:
        self.app = new_app(auth_secret=SECRET)
        self.api = build_api(self.app.parts, self.app.scheduler, NoEngine())
        self.keys = {role: self.app.scheduler.keys.create(f"the {role.value}", role).text for role in Role}
        self.things = Things(self.app)
        self.things.admin = self.client(Role.ADMIN)
        self.browsers = {role: self.logged_in(role) for role in Role}
        self.tokens = {role: browser.token("/") for role, browser in self.browsers.items()}

    def routes(self) -> set[Route]:
        """Every route of the API and of the dashboard, as the servers have them."""
        site = next(each.kwargs["site"] for each in self.api.user_middleware if "site" in each.kwargs)
        methods = ((method, route.path) for route in (*self.api.routes, *site.routes) for method in route.methods)
        return {(method, path) for method, path in methods if method != "HEAD"}

    def client(self, role: Role | None = None) -> TestClient:
        headers = {} if role is None else {"Authorization": f"Bearer {self.keys[role]}"}
        return TestClient(
            self.api, base_url=ADDRESS, headers=headers, follow_redirects=False, raise_server_exceptions=False
        )

    def logged_in(self, role: Role) -> Visitor:
        visitor = Visitor(self.app)
        visitor.send("/login", on="/login", credential=self.keys[role])
        return visitor

    def ask(self, route: Route, role: Role | None) -> int:
        """The status that a caller of this role gets."""
        method, path = route[0], self.things.path(route)
        if is_api(route):
            body = self.things.body(route)
            if route == ("PUT", "/api/v1/sources/{name}"):
                name = path.rpartition("/")[2]
                body |= {"name": name, "table": name}
            client = self.client(role)
            return client.request(method, path, **({} if body is None else {"json": body})).status_code
        if role is None:
            return self.client().request(method, path).status_code
        form = {"form_token": self.tokens[role], "action": "pause", "job": self.things.a_jobs()}
        return self.browsers[role].ask(path, method, **({"data": form} if method == "POST" else {})).status_code


@pytest.fixture
def town(new_app) -> Town:
    return Town(new_app)


def ordered(routes) -> list[Route]:
    """What ends all access comes last."""
    return sorted(routes, key=lambda route: (route[1].endswith("/access/end"), route))


def test_the_table_has_every_route_and_no_other(town):
    assert town.routes() == set(table())


def test_nothing_but_what_is_open_is_answered_without_a_credential(town):
    wrong = {}
    for route, role in table().items():
        if role == OPEN:
            continue
        status = town.ask(route, None)
        wanted = SEE_OTHER if route[0] == "GET" and not is_api(route) else UNAUTHORIZED
        if status != wanted:
            wrong[route] = status
    assert wrong == {}


@pytest.mark.parametrize("role", Role)
def test_a_role_may_do_what_the_table_says_and_nothing_else(town, role):
    wrong = {}
    for route in ordered(table()):
        needed = table()[route]
        if needed == OPEN:
            continue
        status = town.ask(route, role)
        if status not in allowed(route) if role.allows(Role(needed)) else status != FORBIDDEN:
            wrong[route] = status
    assert wrong == {}


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_an_operator_deletes_nothing_by_way_of_many_at_once(town, role):
    job = town.things.a_jobs()
    body = {"action": "delete", "ids": [job]}
    assert town.client(role).post("/api/v1/jobs/bulk", json=body).status_code == FORBIDDEN
    for path in ("/jobs/bulk", "/jobs/bulk/sure"):
        form = {"form_token": town.tokens[role], "action": "delete", "job": job}
        assert town.browsers[role].ask(path, "POST", data=form).status_code == FORBIDDEN
    assert town.client(Role.VIEWER).get(f"/api/v1/jobs/{job}").status_code == 200


def test_what_is_open_tells_nothing(town):
    """The only routes that ask nobody: health, the log-in page, and the files that it needs."""
    free = {path for (_, path), role in table().items() if role == OPEN}
    assert free == {"/healthz", "/readyz", "/login", "/logout", "/static/{name}"}
    for path in ("/healthz", "/readyz", "/login"):
        assert town.client().get(path).status_code == 200
