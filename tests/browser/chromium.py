"""A Chromium for the tests: where it is and, as a program, how it gets there.

`python -m tests.browser.chromium` is part of `make test`: it installs Debian's where it may, else asks Playwright for
its own, else says in one loud line that the browser tests will be skipped. With `CI=true` that is an error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
APT = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "chromium"]
MISSING = (
    "NO BROWSER: the tests of the dashboard are skipped. Install Chromium (Debian: apt-get install chromium; "
    "elsewhere: .venv/bin/playwright install chromium)."
)
ARGUMENTS = [
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def is_needed() -> bool:
    """Whether it is a failure to have none."""
    return os.environ.get("CI", "").lower() == "true"


def find() -> str | None:
    """The browser's program, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None) or _of_playwright()


def _of_playwright() -> str | None:
    """The newest that Playwright has downloaded."""
    folder = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    found = sorted(
        [*folder.glob("chromium-*/chrome-linux*/chrome"), *folder.glob("chromium-*/chrome-mac*/**/Chromium")]
    )
    return str(found[-1]) if found else None


def install() -> None:
    """Try what may be tried here; nobody is asked for a password."""
    may = shutil.which("apt-get") and os.geteuid() == 0
    if may and (tried(APT) or (tried(["apt-get", "update", "-q"]) and tried(APT))):
        return
    tried([sys.executable, "-m", "playwright", "install", "chromium"])


def tried(command: list[str]) -> bool:
    print(f"Not installed here, trying: {' '.join(command)}", flush=True)  # noqa: T201
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=300, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def main() -> int:
    if find() is None:
        install()
    if find() is None:
        print(f"\n*** {MISSING} ***\n", file=sys.stderr, flush=True)  # noqa: T201
        return int(is_needed())
    return 0


if __name__ == "__main__":
    sys.exit(main())
