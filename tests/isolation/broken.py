"""A module that cannot be imported while a file exists; only another process imports it then."""

import os
from pathlib import Path

if (place := os.environ.get("BROKEN_WHILE")) and Path(place).exists():
    raise RuntimeError("half of me is missing")


def works() -> str:
    return "mended"
