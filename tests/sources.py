"""Definitions of sources, for tests."""

from typing import Any

DEFINITION: dict[str, Any] = {
    "name": "us_gdp",
    "url": "https://api.example.org/v1/series",
    "table": "gdp",
    "response": {
        "dataPath": "data.items",
        "fields": [
            {"source": "date", "target": "day", "type": "date"},
            {"source": "series", "target": "series"},
            {"source": "value", "target": "amount", "type": "number"},
        ],
        "unique": ["day", "series"],
    },
}


def a_source(**changes: Any) -> dict[str, Any]:
    """The definition of a source; a change of None leaves the field out."""
    found = {**DEFINITION, **changes}
    return {name: value for name, value in found.items() if value is not None}
