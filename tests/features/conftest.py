"""The fixtures of the kernel's tests, for tests of features: `api`, `visitor`, `at`, `world`, `rig` and the rest."""

# ruff: noqa: F401  pytest finds fixtures and hooks by their names here
from tests.app.conftest import app, during, new_app
from tests.cli.conftest import at, ostinato, place, pytest_generate_tests
from tests.dashboard.conftest import stranger, visitor
from tests.engine.conftest import pytest_pyfunc_call, rig, threads
from tests.rest.conftest import api, as_role, client, new_client
from tests.service.conftest import service
from tests.store.conftest import postgres_world, store, world
from tests.system.conftest import workshop
