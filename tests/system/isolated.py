"""An app whose tasks run in processes. As a program, it is one worker process: its tasks are those of `__main__`.

python isolated.py '{"database_url": "sqlite:////…", "lease": "2s"}'
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

from ostinato import Context, Ostinato
from ostinato.telemetry.formatting import configure_logging

STUBBORN = """
import os, signal, sys, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.setsid()
if os.fork():
    os._exit(0)
descriptor = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(descriptor, f"grandchild {os.getpid()}\\n".encode())
while True:
    threading.Event().wait(1)
"""

app = Ostinato("isolated", **(json.loads(sys.argv[1]) if __name__ == "__main__" else {}))


def mark(path: str, what: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{what} {os.getpid()}\n".encode())
    os.close(descriptor)


@app.task(isolation="process")
def pid(ctx: Context) -> int:
    return os.getpid()


@app.task(isolation="process")
def holds(path: str, stubborn: bool) -> None:
    """Stay until somebody ends it, with a grandchild that has left."""
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen([sys.executable, "-c", STUBBORN, path])
    mark(path, "child")
    while True:
        threading.Event().wait(1)


@app.task(isolation="process")
def crashes(number: int) -> None:
    os.kill(os.getpid(), number)


@app.task
def forks_the_worker(path: str) -> None:
    """A copy of the worker, with all that it has open: it outlives it."""
    if os.fork() == 0:
        mark(path, "copy")
        while True:
            threading.Event().wait(1)


@app.task
def on_a_thread() -> int:
    return sum(range(1_000_000))


def main() -> None:
    configure_logging(app.settings)
    app.run()


if __name__ == "__main__":
    main()
