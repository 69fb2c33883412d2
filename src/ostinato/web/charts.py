"""Charts, drawn here as SVG: attributes and classes alone, since the policy of the site allows no inline style."""

from typing import Any, Final

GLOBALS: Final[dict[str, Any]] = {}
