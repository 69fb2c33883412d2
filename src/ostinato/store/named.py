"""Files of named statements: each under a line `-- name: claim`, perhaps for one database only, and with parts that
several of them share (see dialect.py)."""

import re
from typing import Final

from ostinato.core.errors import StoreError

NAME_LINE: Final = re.compile(r"-- name: (?P<name>[a-z_0-9]+)(?: \[(?P<kind>postgres|sqlite)\])?")
PART_LINE: Final = re.compile(r"-- part: (?P<name>[a-z_0-9]+)")
PART: Final = re.compile(r"\{part (?P<name>[a-z_0-9]+)\}")


def with_parts(text: str) -> str:
    """Each `{part name}` replaced by what stands under `-- part: name`, up to the next name or part."""
    parts: dict[str, list[str]] = {}
    rest: list[str] = []
    into = rest
    for line in text.splitlines():
        if match := PART_LINE.fullmatch(line.rstrip()):
            into = parts.setdefault(match["name"], [])
        elif line.startswith("-- name"):
            into = rest
            rest.append(line)
        elif into is rest or not line.startswith("--"):
            into.append(line)
    whole = "\n".join(rest)
    while match := PART.search(whole):  # one part may have another in it
        if match["name"] not in parts:
            raise StoreError(f"There is no part {match['name']}.")
        whole = whole.replace(match[0], "\n".join(parts[match["name"]]).strip())
    return whole


def split_by_name(text: str) -> list[tuple[str, str | None, str]]:
    """(name, the database it is for or None, body) of each statement in a file."""
    found: list[tuple[str, str | None, list[str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("-- name"):
            match = NAME_LINE.fullmatch(line.rstrip())
            if match is None:
                raise StoreError(f"Line {number} does not name a statement: {line.strip()}")
            found.append((match["name"], match["kind"], []))
        elif found:
            found[-1][2].append(line)
        elif line.strip() and not line.startswith("--"):
            raise StoreError(f"Line {number} stands before the first name.")
    return [(name, kind, "\n".join(lines)) for name, kind, lines in found]
