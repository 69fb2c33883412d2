"""Files of definitions: objects with a name, or folders with such files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ostinato.core.errors import Invalid
from ostinato.shapes.documents import listed, read_file

SUFFIXES: Final = (".yaml", ".yml", ".json")


def read_named(file: Path, what: str) -> list[dict[str, Any]]:
    """Read the objects of a file; each must have a name. `what` describes an object in the error."""
    wanted = [each for document in read_file(file) for each in listed(document)]
    for each in wanted or [None]:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            raise Invalid(f"{file}: {what}.")
    return wanted


def files_in(given: Sequence[Path]) -> Iterator[Path]:
    """Yield the given files, and the files in the given folders."""
    for each in given:
        if not each.is_dir():
            yield each
            continue
        inside = sorted(file for file in each.rglob("*") if file.suffix in SUFFIXES and file.is_file())
        if not inside:
            raise Invalid(f"There is no .yaml, .yml or .json file in {each}.")
        yield from inside
