"""Extras of the package: the library alone needs cronsim and tzdata, everything else is installed by name.

`pyproject.toml` says what each extra brings. A door that needs one calls `need` first, so that its user reads a
sentence with the command, and no traceback.
"""

from importlib.util import find_spec
from typing import Final

from ostinato.core.errors import MissingExtra

# The packages whose modules have another name.
PACKAGES: Final = {
    "django": "Django", "jwt": "PyJWT", "opentelemetry": "opentelemetry-api", "scrapy": "Scrapy",
    "sentry_sdk": "sentry-sdk", "yaml": "PyYAML",
}  # fmt: skip


COMMAND_LINE: Final = ("typer", "rich", "pydantic", "yaml")
SERVER: Final = (
    "fastapi", "uvicorn", "pydantic", "jinja2", "jwt", "cryptography", "prometheus_client", "swagger_ui_bundle", "yaml",
)  # fmt: skip


def need(extra: str, module: str, what: str) -> None:
    """Raise MissingExtra unless the module is installed; `what` is the subject of the sentence."""
    if not is_installed(module):
        name = module.partition(".")[0]
        raise MissingExtra(extra, f"{what} needs {PACKAGES.get(name, name)}: {install(extra)}.")


def need_command_line(what: str) -> None:
    """Raise MissingExtra unless the commands can be run."""
    for module in COMMAND_LINE:
        need("standard", module, what)


def need_server(what: str) -> None:
    """Raise MissingExtra unless REST API and dashboard can be served."""
    for module in SERVER:
        need("server", module, what)


def is_installed(module: str) -> bool:
    """Return True if a module can be imported; of a dotted name, the packages around it are imported now."""
    try:
        return find_spec(module) is not None
    except ImportError:
        return False


def install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f'pip install "ostinato[{extra}]"'


def our_version() -> str:
    """Return the version of this package."""
    from importlib.metadata import PackageNotFoundError, version  # 30 ms

    try:
        return version("ostinato")
    except PackageNotFoundError:
        return "unknown"
