"""Client of a server, over HTTP."""

from typing import Final
from urllib.parse import urlsplit

import httpx2

from ostinato.cli.client import ApiReply, Request
from ostinato.core.errors import Invalid, StoreUnavailable

NO_ADDRESS: Final = "--server is the address of a server, such as https://ostinato.example.com:8060."
HTTP_TIMEOUT: Final = httpx2.Timeout(60, connect=10)  # seconds


class HttpClient:
    """A client over HTTP. It follows no redirects, so the token goes to this server only."""

    is_foreign = True

    def __init__(self, server: str, token: str | None) -> None:
        self._server = _checked(server)
        headers = {"Accept": "application/json"}
        if token:
            _check_token(token)
            headers["Authorization"] = f"Bearer {token}"
        try:
            self._client = httpx2.Client(
                base_url=self._server, headers=headers, timeout=HTTP_TIMEOUT, follow_redirects=False
            )
        except (httpx2.InvalidURL, UnicodeError):
            raise Invalid(NO_ADDRESS) from None

    def send(self, request: Request) -> ApiReply:
        headers = dict(request.headers)
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        try:
            response = self._client.request(request.method, request.target, content=request.content, headers=headers)
        except (httpx2.InvalidURL, UnicodeError):
            raise Invalid(NO_ADDRESS) from None
        except httpx2.HTTPError as error:
            why = str(error).rstrip(".") or type(error).__name__
            raise StoreUnavailable(f"No answer from {self._server}: {why}.") from None
        return ApiReply(response.status_code, response.content, response.headers)

    def close(self) -> None:
        self._client.close()


def _check_token(token: str) -> None:
    if not (token.isascii() and token.isprintable()):
        raise Invalid("--token can only have printable ASCII characters.")


def _checked(server: str) -> str:
    try:
        parts = urlsplit(server)
        odd = parts.port == 0 or parts.username or parts.password or parts.query or parts.fragment
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and not odd
    except ValueError:
        good = False
    if not good:
        raise Invalid(NO_ADDRESS)
    return server.rstrip("/")
