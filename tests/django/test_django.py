"""The tests of the project, run by Django on each database."""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.waiting import PATIENCE

PROJECT = Path(__file__).parent / "project"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database(request, tmp_path):
    """DATABASES["default"] of the project; Django makes a test database beside it."""
    if request.param == "sqlite":
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(tmp_path / "shop.sqlite3"),
            "OPTIONS": {"transaction_mode": "IMMEDIATE"},
            "TEST": {"NAME": str(tmp_path / "test.sqlite3")},
        }
    url = urlsplit(request.getfixturevalue("postgres_database"))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.path[1:],
        "USER": url.username,
        "HOST": url.hostname,
        "PORT": str(url.port),
        "TEST": {"NAME": f"{url.path[1:]}_of_django"},
    }


def manage(database, *words, **environment):
    return subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "manage.py", *words],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=os.environ | {"SHOP_DATABASE": json.dumps(database)} | environment,
    )


@pytest.mark.system
@pytest.mark.parametrize("module", ["transactions"])
def test_django_passes(database, module):
    done = manage(database, "test", "--noinput", f"shop.checks.{module}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Ran 0 tests" not in done.stderr
