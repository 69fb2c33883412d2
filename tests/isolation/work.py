"""Tasks that run in processes. They write files, so that a test sees their progress."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ostinato import Context, Defer, GiveUp, RetryLater
from ostinato.task import Terminated

HERE = Path(__file__).parent
MB = 1024 * 1024


def forever() -> None:
    while True:
        threading.Event().wait(1)


def write(path: str, text: object) -> None:
    """Write the file at once: the reader polls."""
    Path(f"{path}.new").write_text(str(text))
    os.replace(f"{path}.new", path)


# -- results


def nothing() -> None:
    pass


def pid() -> int:
    return os.getpid()


def echo(value: Any) -> Any:
    return value


def environment() -> dict[str, Any]:
    return {"folder": os.getcwd(), "argv": sys.argv, "path": sys.path}


async def waits_and_returns() -> str:
    await asyncio.sleep(0)  # it only goes once around the loop
    return "awaited"


def returns_an_object() -> object:
    return {"lock": threading.Lock()}


class Unpicklable(Exception):
    def __init__(self) -> None:
        self.callback = lambda: None
        super().__init__("nobody can pickle me")


def raises(kind: str) -> None:
    match kind:
        case "unpicklable":
            raise Unpicklable
        case "exit":
            sys.exit(4)
        case "give up":
            raise GiveUp("no")
        case "retry":
            raise RetryLater("5m", "busy")
        case "defer":
            raise Defer("1h")
        case _:
            raise ValueError(kind)


def leaves(code: int) -> None:
    os._exit(code)


def crashes(number: int) -> None:
    os.kill(os.getpid(), number)
    forever()


def segfaults() -> None:
    ctypes.string_at(0)


def tells(ctx: Context) -> Any:
    ctx.progress(1, of=2, message="half")
    before = ctx.checkpoint
    ctx.save_checkpoint({"seen": 7})
    return {"before": before, "now": ctx.checkpoint, "key": ctx.execution_key, "args": ctx.args}


def calls(ctx: Context, request: Any = None) -> Any:
    answer = ctx.call("shop.store", {1, 2} if request == "a set" else request)
    return {"answer": answer, "checkpoint": ctx.checkpoint}


def writes(lines: list[str]) -> None:
    for line in lines:
        print(line)  # noqa: T201
    print("complaint", file=sys.stderr)  # noqa: T201
    logging.getLogger("shop").warning("a record")
    subprocess.run(["echo", "of a child"], check=True)


def writes_and_crashes() -> None:
    print("before the crash")  # noqa: T201
    os.kill(os.getpid(), signal.SIGKILL)


def floods(megabytes: int) -> int:
    line = "x" * 1023 + "\n"
    for _ in range(megabytes * 1024):
        sys.stdout.write(line)
    return megabytes


def says_little_often(lines: int) -> None:
    sys.stdout.write("y\n" * lines)


# -- stopping


def cleans_up(path: str) -> None:
    try:
        write(f"{path}.pid", os.getpid())
        forever()
    except Terminated:
        write(f"{path}.cleaned", "terminated")
        raise


def swallows(path: str) -> None:
    try:
        write(f"{path}.pid", os.getpid())
        forever()
    except Terminated:
        return


async def awaits(path: str) -> None:
    try:
        write(f"{path}.pid", os.getpid())
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        write(f"{path}.cleaned", "cancelled")
        raise


def ignores(path: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    write(f"{path}.pid", os.getpid())
    forever()


def ignores_for_a_moment() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def logs_much(megabytes: int) -> None:
    for _ in range(megabytes * 1024):
        logging.getLogger("shop").warning("x" * 1023)


def spins_in_a_sum(path: str) -> None:
    write(f"{path}.pid", os.getpid())
    sum(range(10**12))


def spins_in_a_pattern(path: str) -> None:
    write(f"{path}.pid", os.getpid())
    re.match(r"(a+)+b", "a" * 60)


STUBBORN = """
import os, signal, sys, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "session" in sys.argv:
    os.setsid()
if "orphan" in sys.argv and os.fork():
    os._exit(0)
open(sys.argv[1] + ".new", "w").write(str(os.getpid()))
os.replace(sys.argv[1] + ".new", sys.argv[1])
while True:
    threading.Event().wait(1)
"""


def forks(path: str, how: list[str], stays: bool = True) -> None:
    """Start something that ignores SIGTERM, wait until it says so, and stay or leave it behind."""
    subprocess.Popen([sys.executable, "-c", STUBBORN, f"{path}.grandchild", *how])
    while not os.path.exists(f"{path}.grandchild"):
        threading.Event().wait(0.01)
    write(f"{path}.pid", os.getpid())
    if stays:
        forever()


# -- usage


def allocates(megabytes: int) -> None:
    data = bytearray(megabytes * MB)
    data[::4096] = b"x" * len(data[::4096])


def keeps(megabytes: int) -> int:
    KEPT.append(bytearray(os.urandom(MB)) * megabytes)
    return os.getpid()


KEPT: list[bytearray] = []


def spins(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def spins_in_a_child(seconds: float) -> None:
    code = f"import time\nwhile time.thread_time() < {seconds}: pass"
    subprocess.run([sys.executable, "-c", code], check=True)


def allocates_in_a_child(megabytes: int) -> int:
    code = f"b = bytearray({megabytes} * 1024 * 1024); b[::4096] = b'x' * len(b[::4096])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode


def opens(files: int) -> int:
    opened = [open(os.devnull) for _ in range(files)]  # noqa: SIM115  they stay open
    return len(opened)


def spins_for_ever() -> None:
    while True:
        pass


def sums_for_ever() -> None:
    sum(range(10**12))


def shares(megabytes: int) -> None:
    import mmap

    shared = mmap.mmap(-1, megabytes * MB)
    for at in range(0, len(shared), 4096):
        shared[at] = 1
    forever()
