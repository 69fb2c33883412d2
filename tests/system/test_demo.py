"""`make demo`: every page shows something, Ctrl-C ends all of it, and taken ports are answered in a sentence."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

from ostinato.dashboard.app import menu_of
from ostinato.feature import our_features
from tests.waiting import PATIENCE, eventually

ROOT = Path(__file__).parent.parent.parent


def started(folder, port, api_port):
    environment = {
        **os.environ, "PORT": str(port), "API_PORT": str(api_port), "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-m", "examples"], cwd=folder, env=environment, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def seen(address):
    with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read().decode()
    return ""


def has_something(page):
    """A page without its empty lists; the settings of the demo have no API keys."""
    return "<main" in page and 'class="empty"' not in page


def is_free(port):
    with suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


def test_the_demo_fills_every_page_and_ctrl_c_leaves_nothing_behind(tmp_path, free_tcp_port_factory):
    port, api_port = free_tcp_port_factory(), free_tcp_port_factory()
    demo = started(tmp_path, port, api_port)
    try:
        address = f"http://127.0.0.1:{port}"
        for path, _ in menu_of(our_features()):
            if path != "/settings":
                eventually(lambda path=path: has_something(seen(address + path)))
        assert seen(f"http://127.0.0.1:{api_port}/books")
        os.killpg(demo.pid, signal.SIGINT)  # as a terminal does
        said, _ = demo.communicate(timeout=PATIENCE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(demo.pid, signal.SIGKILL)
    assert demo.returncode == 0, said
    assert "Traceback" not in said
    assert is_free(port)
    assert is_free(api_port)


def test_a_taken_port_is_answered_in_a_sentence_that_make_can_take(tmp_path, free_tcp_port):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        for name, ports in (("PORT", (number, free_tcp_port)), ("API_PORT", (free_tcp_port, number))):
            demo = started(tmp_path, *ports)
            said, _ = demo.communicate(timeout=PATIENCE)
            assert demo.returncode == 1
            told = rf"Port {number} cannot be used: .* Try: make demo {name}=\d+\n"
            assert re.fullmatch(told, said), said
