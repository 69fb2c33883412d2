"""Questions of the release workflow.

python -m tests.release v0.2.0 dist     fails unless this package may be published under this tag
python -m tests.release extras          the extras to test, as an output of a workflow step
"""

import json
import re
import sys
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

from tests.docs.pages import ROOT
from tests.docs.site import NO_ADDRESS


def metadata(wheel: Path) -> Message:
    """Return the metadata of a wheel; its payload is the README."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def obstacles(tag: str, wheel: Message, changelog: str) -> list[str]:
    """List the reasons not to publish a wheel under a tag."""
    version = wheel["Version"]
    found = []
    if tag != f"v{version}":
        found.append(f"The tag is {tag}, and the package is {version}: set the version in pyproject.toml.")
    if not re.search(rf"^## \[{re.escape(version)}\] ", changelog, re.M):
        found.append(f"CHANGELOG.md has no section `## [{version}] - DATE`.")
    if NO_ADDRESS in wheel.get_payload():
        found.append(f"The README links to {NO_ADDRESS}: set the address of the repository in pyproject.toml.")
    return found


def extras() -> list[str]:
    """List the extras as pip writes them, with none first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return ["", *(f"[{name}]" for name in project["optional-dependencies"])]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["extras"]:
            sys.stdout.write(f"extras={json.dumps(extras())}\n")
        case [tag, folder]:
            (wheel,) = Path(folder).glob("*.whl")
            if found := obstacles(tag, metadata(wheel), (ROOT / "CHANGELOG.md").read_text()):
                raise SystemExit("\n".join(found))
        case _:
            raise SystemExit(__doc__)
