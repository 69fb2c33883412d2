"""Files that people write for us: objects with a name, or folders of such files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ostinato.core.errors import Invalid
from ostinato.shapes.documents import listed, read_file

SUFFIXES: Final = (".yaml", ".yml", ".json")


def read_named(file: Path, what: str) -> list[dict[str, Any]]:
    """Read the objects of a file, each with a name; `what` says how one is written."""
    wanted = [each for document in read_file(file) for each in listed(document)]
    for each in wanted or [None]:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            raise Invalid(f"{file}: {what}.")
    return wanted


def files_in(given: Sequence[Path]) -> Iterator[Path]:
    """Give the files that were named, and those in the folders that were."""
    for each in given:
        if not each.is_dir():
            yield each
            continue
        inside = sorted(file for file in each.rglob("*") if file.suffix in SUFFIXES and file.is_file())
        if not inside:
            raise Invalid(f"There is no .yaml, .yml or .json file in {each}.")
        yield from inside
