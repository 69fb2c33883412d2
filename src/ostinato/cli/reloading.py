"""Restart of a command when the code below the current folder changes, for development.

The command runs in its own process. If broken code ends the process, the next change starts it again.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

FLAG: Final = "--reload"
EVERY: Final = 0.5  # seconds between two checks of the files
GRACE: Final = {"OSTINATO_SHUTDOWN_GRACE": "2s"}  # for runs, unless the environment sets another grace
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

Stamps = Mapping[str, int]  # by file, the time of its last change


def reload() -> int:
    """Run this command without the flag until a signal stops it; return its exit code."""
    command = [sys.executable, *(word for word in sys.orig_argv[1:] if word != FLAG)]
    return _Reloader(command, Path.cwd()).run()


class _Reloader:
    """Runner of one command in a process that restarts."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._command, self._folder = command, folder
        self._stopping = False
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        for number in SIGNALS:
            signal.signal(number, self._forward)
        while True:
            seen = stamps(self._folder)
            process = self._start()
            changed = self._next_change(process, seen)
            if changed:
                sys.stderr.write(f"{changed} has changed: restarting.\n")
                process.terminate()
            code = process.wait()
            if self._stopping:
                return code

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the command in its own process group: only this process receives Ctrl-C, and forwards it."""
        self._process = subprocess.Popen(self._command, env=GRACE | os.environ, process_group=0)
        if self._stopping:
            self._process.terminate()
        return self._process

    def _next_change(self, process: subprocess.Popen[bytes], seen: Stamps) -> str:
        """Wait for a change of the code; return the name of the file, or an empty text after a signal."""
        reported = False
        while not self._stopping:
            now = stamps(self._folder)
            if now != seen:
                return Path(min(dict(seen.items() ^ now.items()))).name
            if process.poll() is not None and not reported:
                reported = True
                sys.stderr.write("The process has ended; waiting for a change of the code, or Ctrl-C.\n")
            time.sleep(EVERY)
        return ""

    def _forward(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        if self._process is not None:
            self._process.send_signal(number)


def stamps(folder: Path) -> dict[str, int]:
    """Return the last change of each Python file below a folder, except in hidden folders and virtualenvs."""
    return dict(_stamps(str(folder)))


def _stamps(folder: str) -> Iterator[tuple[str, int]]:
    with os.scandir(folder) as entries:
        found = list(entries)
    if any(entry.name == "pyvenv.cfg" for entry in found):
        return
    for entry in found:
        try:
            if entry.name.endswith(".py"):
                yield entry.path, entry.stat().st_mtime_ns
            elif not entry.name.startswith((".", "__pycache__")) and entry.is_dir(follow_symlinks=False):
                yield from _stamps(entry.path)
        except OSError:  # deleted in the meantime, or not readable
            continue
