"""Marks: each start of a task appends 16 bytes to a file, so that another process can count and time starts."""

import os
import struct
import time
from pathlib import Path

RECORD = struct.Struct("<qd")
_descriptor: int | None = None


def mark(number: int) -> None:
    """Append a mark to the file that the environment names."""
    global _descriptor
    if _descriptor is None:
        _descriptor = os.open(os.environ["MARKS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(_descriptor, RECORD.pack(number, time.time()))


def count(file: Path) -> int:
    return file.stat().st_size // RECORD.size if file.exists() else 0


def read(file: Path) -> list[tuple[int, float]]:
    """Return the number and the time of each mark."""
    return list(RECORD.iter_unpack(file.read_bytes())) if file.exists() else []
