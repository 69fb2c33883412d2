"""Virtual environments that hold the library and the packages of some extras, made of links, without a network."""

import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.docs.pages import ROOT
from tests.waiting import PATIENCE

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


class Installation:
    """A Python that has the library as it is here, and the packages of these extras, and no others."""

    def __init__(self, folder: Path, *extras: str) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = folder / "bin" / "python"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site = folder / "lib" / version / "site-packages"
        self.distributions = {each.name.lower(): each for each in closure(extras)}
        for each in self.distributions.values():
            self._link(each)
        (self.site / "ostinato.pth").write_text(f"{ROOT / 'src'}\n")

    def _link(self, found: Distribution) -> None:
        """Link the files and folders of a distribution that stand in site-packages."""
        for name in {path.parts[0] for path in found.files or () if path.parts[0] not in ("..", "__pycache__")}:
            (self.site / name).symlink_to(Path(str(found.locate_file(name))))

    def run(self, *arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run its Python; `cwd` holds the database that it makes."""
        return subprocess.run(
            [self.python, *map(str, arguments)],
            cwd=cwd,
            env={"PATH": "/usr/bin:/bin", "HOME": str(cwd)} | environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def program(self, *arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the program `ostinato`, as the script of the package does."""
        return self.run("-c", "from ostinato.__main__ import main; main()", *arguments, cwd=cwd, **environment)


def closure(extras: Sequence[str]) -> Iterator[Distribution]:
    """Yield the distributions that the package needs with these extras, and those that these need."""
    wanted = [*map(Requirement, PROJECT["dependencies"])]
    wanted += [Requirement(f"{PROJECT['name']}[{','.join(extras)}]")] if extras else []
    seen: set[tuple[str, str]] = set()
    while wanted:
        requirement = wanted.pop()
        name = requirement.name.lower()
        for extra in {"", *requirement.extras} - {extra for known, extra in seen if known == name}:
            seen.add((name, extra))
            if name == PROJECT["name"]:
                wanted += _those(EXTRAS.get(extra, []), extra)
                continue
            found = distribution(name)  # all extras are installed here
            yield found
            wanted += _those(found.requires or [], extra)


def _those(requirements: Sequence[str], extra: str) -> list[Requirement]:
    """Return the requirements that hold here, with this extra."""
    found = map(Requirement, requirements)
    return [each for each in found if each.marker is None or each.marker.evaluate({"extra": extra})]
