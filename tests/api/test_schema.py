"""Whatever the OpenAPI document allows, and much that it does not: never a 5xx, never an answer outside the schema."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from ostinato import Ostinato
from ostinato.api.app import create_app
from ostinato.core.model import Definition
from ostinato.core.schedule import Every

NEVER = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
REPEATABLE = settings(
    max_examples=8, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture
def document(database_url):
    app = Ostinato("shop", database_url=database_url)
    app.open(upgrade=True)
    app.register("fine", lambda: None)
    app.jobs.create(
        [Definition("fine", Every.of("1h"), key="0", app="shop")]
    )  # what paths of one letter find
    yield schemathesis.openapi.from_asgi("/openapi.json", create_app(app.scheduler, app.settings))
    app.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", GenerationMode)
def test_no_request_gets_a_5xx_or_an_answer_outside_the_document(document, mode):
    operations = [result.ok() for result in document.get_all_operations()]
    tried = [operation for operation in operations if _answers_well(operation, mode)]
    assert len(tried) > 20


def _answers_well(operation, mode) -> bool:
    """Whether it could be tried: what takes nothing cannot be asked wrongly."""

    @REPEATABLE
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case):
        case.call_and_validate(checks=NEVER)

    try:
        ask()
    except Unsatisfiable:
        return False
    return True
