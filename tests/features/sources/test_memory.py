"""A source of a million records in a thousand pages: fetched in flat memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import free_port

ROOT = Path(__file__).parents[3]


@pytest.mark.system
@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_million_records_in_a_thousand_pages_take_less_than_150_mb(database_url):
    port = free_port()
    words = [sys.executable, "-m", "benchmarks.subjects.records_api", str(port), "1000", "1000"]
    environment = os.environ | {"OSTINATO_DATABASE_URL": database_url}
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as api:
        try:
            assert api.stdout.readline() == "ready\n"
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.subjects.fetching", "fetch", f"http://127.0.0.1:{port}/records"],
                cwd=ROOT, env=environment, capture_output=True, text=True, timeout=3000,
            )  # fmt: skip
        finally:
            api.kill()
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["records"] == 1_000_000
    assert told["peak_mb"] < 150
