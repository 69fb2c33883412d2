"""Settings as they are loaded from a folder, an environment and arguments."""

from pathlib import Path

import pytest

from ostinato.config import Settings
from ostinato.core.errors import InvalidSetting

SECRET = "postgresql://ann:s3cret@db.example.org:5432/jobs"


def load(folder: Path, *, arguments=None, environ=None, file=None, project=None) -> Settings:
    if file is not None:
        (folder / "ostinato.toml").write_text(file)
    if project is not None:
        (folder / "pyproject.toml").write_text(project)
    return Settings.load(arguments or {}, environ or {}, folder)


def refusal(folder: Path, **given) -> str:
    with pytest.raises(InvalidSetting) as refused:
        load(folder, **given)
    return str(refused.value)
