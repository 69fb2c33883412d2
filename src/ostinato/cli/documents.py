"""Files that people write for us: one object with a name, or a list of them, in YAML or JSON."""

import json
from pathlib import Path
from typing import Any

from ostinato.core.errors import Invalid


def read_named(file: Path, what: str) -> list[dict[str, Any]]:
    """The objects of a file, each with a name; `what` one of them is, for whoever wrote something else."""
    import yaml  # JSON is YAML too, but for its errors

    try:
        text = file.read_text("utf-8")
        read = json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}.") from None
    except (ValueError, yaml.YAMLError) as error:
        raise Invalid(f"{file} is neither JSON nor YAML: {error}") from None
    wanted = read if isinstance(read, list) else [read]
    for each in wanted:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            raise Invalid(f"{file}: {what}.")
    return wanted
