"""`python -m benchmarks.sizes`: packages and megabytes of each extra and of the peers, into docs/installation.md.

Each is installed into a new virtualenv by uv, from the registry of this machine, with bytecode, as pip does. What the
virtualenv itself holds is not counted, and neither is pip.
"""

import platform
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "installation.md"
TABLE = re.compile(r"(?<=<!-- python -m benchmarks.sizes -->\n).*?(?=<!-- end -->)", re.S)
UV = (sys.executable, "-m", "uv")
# As their documentation installs them, with the client of a broker or database where they need one.
PEERS = (
    "huey", "apscheduler", "rq", "dramatiq[redis]", "celery[redis]", "pgqueuer[asyncpg]", "procrastinate", "dbos",
    "prefect", "apache-airflow",
)  # fmt: skip


class Size(NamedTuple):
    """The weight of one installation."""

    name: str
    version: str
    packages: int
    megabytes: float


def measure(name: str, requirement: str) -> Size:
    """Install a requirement into a new virtualenv, and weigh it."""
    with tempfile.TemporaryDirectory(prefix="ostinato-size-") as folder:
        _run(*UV, "venv", "-q", "--python", sys.executable, folder)
        (site,) = Path(folder).glob("lib/python*/site-packages")
        before = _bytes(site)
        python = f"{folder}/bin/python"
        _run(*UV, "pip", "install", "-q", "--compile-bytecode", "--python", python, requirement)
        package = re.split(r"[\[@ ]", requirement)[0]
        code = f"from importlib.metadata import version; print(version({package!r}))"
        packages = len(list(site.glob("*.dist-info")))
        return Size(name, _run(python, "-c", code).strip(), packages, (_bytes(site) - before) / 1e6)


def ours(folder: str) -> Iterator[tuple[str, str]]:
    """Build the wheel, and yield the name and the requirement of the library and of each extra."""
    _run(*UV, "build", "-q", "--wheel", "--no-build-isolation", "--python", sys.executable, "-o", folder, str(ROOT))
    (wheel,) = Path(folder).glob("*.whl")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    yield "ostinato", f"ostinato @ {wheel.as_uri()}"
    for extra in project["optional-dependencies"]:
        yield f"ostinato[{extra}]", f"ostinato[{extra}] @ {wheel.as_uri()}"


def table(sizes: list[Size]) -> str:
    """Return the table of the page, the lightest first."""
    lines = ["", "| installed | version | packages | MB |", "|---|---|---|---|"]
    for each in sorted(sizes, key=lambda size: size.megabytes):
        name = f"**`{each.name}`**" if each.name.startswith("ostinato") else f"`{each.name}`"
        lines.append(f"| {name} | {each.version} | {each.packages} | {each.megabytes:.1f} |")
    today = datetime.now(UTC)
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, {today:%d %B %Y}"
    return "\n".join([*lines, "", f"Measured on {machine}.", ""])


def main() -> None:
    sizes: list[Size] = []
    with tempfile.TemporaryDirectory(prefix="ostinato-wheel-") as folder:
        for name, requirement in [*ours(folder), *((each, each) for each in PEERS)]:
            try:
                sizes.append(measure(name, requirement))
            except subprocess.CalledProcessError as error:
                print(f"{name} cannot be installed here: {error.stderr.strip().splitlines()[-1:]}")
            else:
                print(*sizes[-1])
    page = PAGE.read_text()
    if not TABLE.search(page):
        raise SystemExit(f"{PAGE} has no place for the table.")
    PAGE.write_text(TABLE.sub(lambda _: table(sizes), page))


def _bytes(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
