"""Start the demo in one process tree: the example API, the shop, and the dashboard. `make demo` runs it."""

import os
import socket
import sys
from contextlib import closing
from pathlib import Path

from examples.sources import api
from ostinato import Ostinato
from ostinato.features.providers.rules import Provider
from ostinato.features.providers.service import ProviderService

FOLDER = Path(".demo")


def main() -> None:
    """Check both ports, then serve until Ctrl-C; the example API ends with this process."""
    port, api_port = _port("PORT", 8060), _port("API_PORT", api.PORT)
    os.environ["DEMO_API_PORT"] = str(api_port)
    FOLDER.mkdir(exist_ok=True)
    os.environ.setdefault("OSTINATO_DATABASE_URL", f"sqlite:///{FOLDER}/ostinato.db")
    api.start(api_port)
    _prepare()
    from ostinato.program import main as ostinato

    sys.argv = ["ostinato", "serve", "--app", "examples.demo:app", "--port", str(port)]
    ostinato()


def _port(name: str, usual: int) -> int:
    """Read a port from the environment; exit with an error if the port is in use."""
    text = os.environ.get(name) or str(usual)
    try:
        socket.create_server(("127.0.0.1", int(text))).close()
    except (OSError, OverflowError, ValueError):
        free = _free_port()
        sys.exit(f"Port {text} cannot be used: another program may listen on it. Try: make demo {name}={free}")
    return int(text)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _prepare() -> None:
    """Save a budget for the example API. An app itself cannot declare budgets."""
    with closing(Ostinato()) as app:
        app.open(upgrade=True)
        app.scheduler.part(ProviderService).put(Provider("127.0.0.1", 120, api.MINUTE), by="demo")


if __name__ == "__main__":
    main()
