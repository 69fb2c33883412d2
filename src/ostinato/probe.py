"""`python -m ostinato.probe live|ready`: ask the probe of a worker on this host, for probes that run a command.

Exit code 0: yes; 1: no, or no answer; 2: wrong arguments. It imports nothing but sockets: such probes run every few
seconds, beside the worker and on its CPU.
"""

import os
import socket
import sys

TIMEOUT = 5.0  # seconds
MOST = 65536  # bytes of an answer
USAGE = "Usage: python -m ostinato.probe live|ready [PORT or HOST:PORT; default: OSTINATO_PROBE]"
EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
PATHS = {"live": "/livez", "ready": "/readyz"}


def main(arguments: "list[str]") -> int:
    """Ask once; print what the worker answers, and return the exit code."""
    question, address = (*arguments, *[""] * 2)[:2]
    host, _, port = (address or os.environ.get("OSTINATO_PROBE", "")).rpartition(":")
    if question not in PATHS or len(arguments) > 2 or not port.isdecimal():
        return _say(USAGE, 2)
    host = host.strip("[]")
    try:
        status, body = ask(EVERYWHERE.get(host, host), int(port), PATHS[question])
    except (OSError, OverflowError) as error:
        return _say(f"The probe does not answer: {error}", 1)
    return _say(body or "This is not the probe of a worker.", 0 if status == "200" else 1)


def ask(host: str, port: int, path: str) -> "tuple[str, str]":
    """Return status and body of an answer."""
    with socket.create_connection((host, port), TIMEOUT) as connection:
        connection.settimeout(TIMEOUT)
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
        answer = b""
        while len(answer) < MOST and (data := connection.recv(MOST)):
            answer += data
    head, _, body = answer.decode("utf-8", "replace").partition("\r\n\r\n")
    return (head.split(" ", 2) + [""] * 2)[1], body


def _say(text: str, code: int) -> int:
    sys.stdout.write(f"{text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
