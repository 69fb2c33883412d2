"""schemathesis against a real server, with auth and without: every check, but for what schemathesis.toml excepts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import eventually

CONFIGURED = Path(__file__).parent.parent / "rest" / "schemathesis.toml"
HOOKS = CONFIGURED.with_name("schema_hooks.py")
SECRET = "0123456789abcdef0123456789abcdef"
AN_APP = """
from ostinato import Ostinato

app = Ostinato("shop")

@app.task(every="1h")
def tick() -> None: ...

@app.task
def anything(**args: object) -> None: ...
"""


@pytest.fixture(params=["without auth", "with auth"])
def asking(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """A server, and how schemathesis asks it."""
    (tmp_path / "shop.py").write_text(AN_APP)
    secret = {"OSTINATO_AUTH_SECRET": SECRET} if request.param == "with auth" else {}
    log = tmp_path / "log"
    with log.open("w") as out:
        server = subprocess.Popen(
            [sys.executable, "-c", "from ostinato.program import main; main()", "serve", "--app", "shop:app",
             "--port", "0"],
            cwd=tmp_path, stdout=out, stderr=out,
            env=os.environ | {"OSTINATO_DATABASE_URL": "sqlite:///shop.db", "PYTHONUNBUFFERED": "1"} | secret,
        )  # fmt: skip
    try:
        found = eventually(lambda: re.search(r"http=(http://\S+)", log.read_text()))
        yield [f"{found[1]}/openapi.json", *(_credential(tmp_path, secret) if secret else ())]
    finally:
        server.kill()
        server.wait()
    assert "Traceback" not in log.read_text()


def _credential(folder: Path, secret: dict[str, str]) -> list[str]:
    made = subprocess.run(
        [
            sys.executable, "-c", "from ostinato.program import main; main()",
            "token", "create", "ann", "--role", "admin",
        ],
        cwd=folder, env=os.environ | secret, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return ["-H", f"Authorization: Bearer {made.stdout.split()[-1]}"]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("examples", "phases"),
    [(25, "fuzzing"), pytest.param(200, "examples,coverage,fuzzing", marks=pytest.mark.soak)],
)
def test_the_api_does_what_its_document_says(asking: list[str], tmp_path: Path, examples: int, phases: str):
    where, *credential = asking
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIGURED), "run", where, *credential,
         "--max-examples", str(examples), "--seed", "1", "--workers", "2", "--continue-on-failure",
         "--phases", phases, "--wait-for-schema", "60",
         "--exclude-path", "/api/v1/access/end"],  # it would end the credential of this very test
        cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"SCHEMATHESIS_HOOKS": str(HOOKS)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
