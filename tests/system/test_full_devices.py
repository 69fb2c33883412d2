"""A full device, or no stdout and stderr at all, keeps no process from its work (G14)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE, eventually

AN_APP = """
from pathlib import Path
from ostinato import Ostinato

app = Ostinato("shop")

@app.task(every="1h", first_run="now", retries=0)
def tick() -> None:
    print("printed", flush=True)
    Path("done").touch()
"""
PROGRAM = "from ostinato.program import main; main()"
STREAMS = {
    "stdout": "exec {0} > /dev/full 2> log",
    "stderr": "exec {0} > log 2> /dev/full",
    "both": "exec {0} > /dev/full 2> /dev/full",
    "none": "exec {0} >&- 2>&-",
}


@pytest.mark.parametrize("streams", STREAMS)
@pytest.mark.parametrize("command", [("worker",), ("serve", "--port", "0")], ids=lambda words: words[0])
def test_a_process_works_and_stops_though_its_output_cannot_be_written(
    tmp_path: Path, command: tuple[str, ...], streams: str
):
    (tmp_path / "shop.py").write_text(AN_APP)
    program = STREAMS[streams].format('"$@"')
    process = subprocess.Popen(
        ["/bin/sh", "-c", program, "sh", sys.executable, "-c", PROGRAM, *command, "--app", "shop:app"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, env=os.environ | {"OSTINATO_DATABASE_URL": "sqlite:///shop.db"},
    )  # fmt: skip
    try:
        eventually((tmp_path / "done").exists)
        eventually(lambda: _completed(tmp_path) == 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
    log = tmp_path / "log"
    assert "Traceback" not in (log.read_text() if log.exists() else "")


def _completed(folder: Path) -> int:
    from ostinato import Ostinato

    app = Ostinato("shop", database_url=f"sqlite:///{folder}/shop.db")
    try:
        return app.jobs.get("tick").facts.completed
    finally:
        app.close()
