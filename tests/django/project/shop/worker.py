"""A real worker process on the database of the tests."""

import json
import os
import subprocess
import sys
from pathlib import Path

from django.db import connection

MANAGE = Path(__file__).parent.parent / "manage.py"


def ostinato(*words: str, **environment: str) -> str:
    """Run `manage.py ostinato …` in a process; return what it printed."""
    settings = {key: value for key, value in connection.settings_dict.items() if key not in ("TEST", "TIME_ZONE")}
    done = subprocess.run(
        [sys.executable, str(MANAGE), "ostinato", *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"SHOP_DATABASE": json.dumps(settings, default=str)} | environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def work(**environment: str) -> str:
    """Let a worker do everything that may start now."""
    return ostinato("worker", "--until-idle", **environment)
