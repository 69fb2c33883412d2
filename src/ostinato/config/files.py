"""Settings in a file: `ostinato.toml`, or `[tool.ostinato]` in `pyproject.toml`."""

from collections.abc import Mapping
from pathlib import Path

from ostinato.core.errors import InvalidSetting


def file_in(folder: Path) -> tuple[Mapping[str, object], str]:
    """The settings of the folder's file, and its path."""
    own, project = folder.absolute() / "ostinato.toml", folder.absolute() / "pyproject.toml"
    if own.is_file():
        return _table(own), str(own)
    return (_table(project, "tool", "ostinato") if project.is_file() else {}), str(project)


def _table(path: Path, *keys: str) -> Mapping[str, object]:
    import tomllib  # most processes find no file and never need it

    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidSetting(f"{path} cannot be read: {error}. Correct it, or move it away.") from None
    for key in keys:
        table = table.get(key, {})
        if not isinstance(table, dict):
            raise InvalidSetting(f"{key} in {path} must be a table: [{'.'.join(keys)}].")
    return table
