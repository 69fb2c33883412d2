"""`systemd-analyze` for the tests: where it is and, as a program, how it gets there.

`python -m tests.deploy.systemd` is part of `make test`: it installs Debian's where it may, else it says in one loud
line which tests are skipped. With `CI=true` that is an error. macOS has none, and needs none.
"""

from __future__ import annotations

import os
import shutil
import sys

from tests.browser.chromium import is_needed, tried

APT = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "systemd"]
MISSING = (
    "NO SYSTEMD-ANALYZE: the units of deploy/systemd are not verified. Install it (Debian: apt-get install systemd)."
)


def find() -> str | None:
    """The program, if there is one."""
    return shutil.which("systemd-analyze")


def main() -> int:
    may = sys.platform == "linux" and shutil.which("apt-get") and os.geteuid() == 0
    if find() is None and may and not tried(APT) and tried(["apt-get", "update", "-q"]):
        tried(APT)
    if find() is None and sys.platform == "linux":
        print(f"\n*** {MISSING} ***\n", file=sys.stderr, flush=True)  # noqa: T201
        return int(is_needed())
    return 0


if __name__ == "__main__":
    sys.exit(main())
