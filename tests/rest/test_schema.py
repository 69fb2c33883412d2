"""Whatever the OpenAPI document allows, and much that it does not: never a 5xx, never an answer outside the schema."""

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given, note, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from ostinato import Ostinato
from ostinato.core.model import Definition
from ostinato.core.schedule import Every
from ostinato.rest.app import create_app

NEVER = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
REPEATABLE = settings(
    max_examples=8, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)


class Both:
    """The same app on both databases: to draw a case takes ten times as long as to ask it."""

    def __init__(self, apps: list[Ostinato]) -> None:
        self._apps = [create_app(app.scheduler, app.settings) for app in apps]
        self._asked = self._apps[0]

    def __iter__(self) -> Iterator[str]:
        for app in self._apps:
            self._asked = app
            yield app.state.settings.database_url

    async def __call__(self, *request: object) -> None:
        await self._asked(*request)


@pytest.fixture
def both(sqlite_url, postgres_url):
    apps = [Ostinato("shop", database_url=url) for url in (sqlite_url, postgres_url)]
    for app in apps:
        app.open(upgrade=True)
        app.register("fine", lambda: None)
        app.jobs.create([Definition("fine", Every.of("1h"), key="0", app="shop")])  # what paths of one letter find
    yield Both(apps)
    for app in apps:
        app.close()


@pytest.mark.parametrize("mode", GenerationMode)
def test_no_request_gets_a_5xx_or_an_answer_outside_the_document(both, mode):
    document = schemathesis.openapi.from_asgi("/openapi.json", both)
    operations = [result.ok() for result in document.get_all_operations()]
    tried = [operation for operation in operations if _answers_well(operation, mode, both)]
    assert len(tried) > 20


def _answers_well(operation, mode, both) -> bool:
    """Whether it could be tried: what takes nothing cannot be asked wrongly."""

    @REPEATABLE
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case):
        for url in both:
            note(url)
            case.call_and_validate(checks=NEVER)

    try:
        ask()
    except Unsatisfiable:
        return False
    return True
