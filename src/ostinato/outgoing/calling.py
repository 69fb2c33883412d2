"""The HTTP client for requests to other hosts, hop by hop."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ostinato.clock import Clock, SystemClock
from ostinato.config import Grants
from ostinato.config.extras import need
from ostinato.core.addresses import PUBLIC_ONLY, Egress, Hop, check_url, follow, host_of, with_params
from ostinato.core.auth import FRAMING_HEADERS
from ostinato.core.errors import Invalid, NotAllowed, TooMuch, Unreachable
from ostinato.outgoing.credentials import Credentials, Shown
from ostinato.outgoing.gate import Gate, OpenGate, RequestPermit
from ostinato.outgoing.reply import Bounds, Patience, Reply

if TYPE_CHECKING:
    import httpcore2

AGENT: Final = "Ostinato"
LONGEST_URL: Final = 16_384  # cursors can be long
SAFE: Final = frozenset({"GET", "HEAD"})  # may be sent again over a new connection
UNAUTHORIZED: Final = 401
HEADER_VALUE: Final = re.compile(r"(?:[!-~\x80-\xff](?:[ \t!-~\x80-\xff]*[!-~\x80-\xff])?)?")
FRAMING: Final = FRAMING_HEADERS - {"connection"}  # Ostinato itself sets Connection: close
HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
NO_CREDENTIALS: Final = Credentials()
BUDGET_PATIENCE: Final = 2.0  # seconds; for a longer wait the run is deferred


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The answer to a request, with a body of limited length."""

    status: int
    body: bytes = b""

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300


class Outgoing:
    """HTTP client for requests to other hosts. Use it on one loop, and close it."""

    def __init__(
        self,
        *,
        egress: Egress = PUBLIC_ONLY,
        grants: Grants = Grants(),  # noqa: B008  a frozen value
        verify: ssl.SSLContext | bool = True,
        gate: Gate = OpenGate(),  # noqa: B008  it has no state
        clock: Clock = SystemClock(),  # noqa: B008
    ) -> None:
        self._egress, self._verify, self._gate, self._clock = egress, verify, gate, clock
        self.grants = grants  # the secrets that requests may use
        self._pool: httpcore2.AsyncConnectionPool | None = None

    async def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] = {},
        body: bytes = b"",
        seconds: float = 10.0,
        most: int = 0,
    ) -> CallAnswer:
        """Send one request and read at most `most` bytes of its answer. Redirects are not followed."""
        bounds = Bounds(begin=seconds, silence=seconds, total=seconds, redirects=-1)
        alone = {"Connection": "close", "Accept-Encoding": "identity"}
        try:
            async with (
                asyncio.timeout(seconds),
                self.request(method, url, headers=alone | dict(headers), body=body, bounds=bounds, patience=0) as reply,
            ):
                return CallAnswer(reply.status, await _read(reply, most))
        except TimeoutError:
            raise Unreachable(f"There was no answer within {seconds:g} s.") from None

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        *,
        params: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] = {},
        body: bytes = b"",
        credentials: Credentials = NO_CREDENTIALS,
        bounds: Bounds = Bounds(),  # noqa: B008  a frozen value
        patience: float = BUDGET_PATIENCE,
        secrets: Iterable[str] = (),
    ) -> AsyncIterator[Reply]:
        """Send a request, follow up to `bounds.redirects` redirects (-1: none), and yield the last reply.

        `patience` is the number of seconds to wait for a provider's budget before BudgetSpent is raised. `secrets`
        are parts of the headers or the URL that errors must not show.
        """
        usual = {"user-agent": AGENT, "accept-encoding": "gzip, deflate", "accept": "*/*"}
        given = {name.lower(): (name, value) for name, value in headers.items()}
        sent = {name: value for name, value in usual.items() if name not in given} | dict(given.values())
        self._check(url)
        first = Hop(method.upper(), with_params(url, params), sent, body, trusted=True)
        shown = await credentials.shown(self)
        reply = await self._followed(first, shown, bounds, patience, secrets)
        if reply.status == UNAUTHORIZED and credentials.refused():
            await reply.close()
            shown = await credentials.shown(self)
            reply = await self._followed(first, shown, bounds, patience, secrets)
        try:
            yield reply
        finally:
            await reply.close()

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.aclose()
        await self._gate.close()

    # -- hop by hop

    async def _followed(self, hop: Hop, shown: Shown, bounds: Bounds, patience: float, secrets: Iterable[str]) -> Reply:
        hops, redirects, waiting = 0, 0, Patience(host_of(hop.url), bounds.total)
        hidden = [*secrets, *shown.secrets]
        while True:
            reply = await self._hop(hop, shown, bounds, waiting, patience, hops, hidden)
            hops, redirects = reply.hops, redirects + 1
            location = reply.headers.get("location")
            try:
                further = None if bounds.redirects < 0 else follow(hop, reply.status, location)
            except ValueError:
                await reply.close()
                raise NotAllowed(f"{waiting.host} redirects to an invalid URL.") from None
            if further is None:
                return reply
            await reply.discard()
            if redirects > bounds.redirects:
                raise NotAllowed(f"{waiting.host} redirects more than {bounds.redirects} times.")
            self._check(further.url)
            hop = further
            waiting.host = host_of(hop.url)

    async def _hop(
        self,
        hop: Hop,
        shown: Shown,
        bounds: Bounds,
        waiting: Patience,
        patience: float,
        hops: int,
        hidden: list[str],
    ) -> Reply:
        """Send one request and read the headers of its answer; repeat once if a reused connection was closed."""
        may_repeat = hop.method in SAFE
        while True:
            admission = await self._gate.admit(host_of(hop.url), patience, bounds.begin)
            try:
                hops += 1
                authenticated, secrets = _with_credentials(hop, shown, admission, self.grants)
                answer = await waiting.for_(self._sent(authenticated, waiting.host, may_repeat), bounds.begin)
            finally:
                if admission is not None:
                    admission.over()
            if answer is not None:
                return Reply(answer, hop.url, bounds, waiting, self._clock.now(), hops, [*hidden, *secrets])
            may_repeat = False

    def _check(self, url: str) -> None:
        try:
            check_url(url, "The URL", self._egress, LONGEST_URL)
        except Invalid as error:
            raise NotAllowed(str(error)) from None

    async def _sent(self, hop: Hop, host: str, may_repeat: bool) -> "httpcore2.Response | None":
        """Return the answer; None if a reused connection was closed and the request may be repeated."""
        if self._pool is None:
            need("sources", "httpx2", "An HTTP request")
        import httpcore2

        from ostinato.outgoing.network import OPENED

        opened: list[str] = []
        mark = OPENED.set(opened)
        try:
            return await self._opened().handle_async_request(_request(hop))
        except httpcore2.LocalProtocolError:
            raise NotAllowed("The request cannot be sent: one of its headers is invalid.") from None
        except (httpcore2.RemoteProtocolError, httpcore2.ReadError, httpcore2.WriteError) as error:
            if may_repeat and not opened:
                return None
            raise _unreachable(error, host) from None
        except httpcore2.ConnectError as error:
            raise Unreachable(str(error) or f"No server answers at {host}.") from None
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.UnsupportedProtocol) as error:
            raise Unreachable(f"There was no answer from {host}: {type(error).__name__}.") from None
        finally:
            OPENED.reset(mark)

    def _opened(self) -> "httpcore2.AsyncConnectionPool":
        if self._pool is None:
            from ostinato.outgoing.network import connections

            self._pool = connections(self._verify, self._egress)
        return self._pool


def _unreachable(error: Exception, host: str) -> Unreachable:
    said = str(error)
    if "too long" in said or "too large" in said.lower() or "exceeded" in said:
        return TooMuch(f"The headers of {host}'s answer are too large.")
    if "disconnected" in said or not said:
        return Unreachable(f"{host} closed the connection without an answer.")
    return Unreachable(f"{host} did not answer in HTTP.")


def _with_credentials(hop: Hop, shown: Shown, admission: RequestPermit | None, grants: Grants) -> tuple[Hop, list[str]]:
    """Add the run's credentials, only for the first origin, and the provider's key, only for its hosts."""
    added = Shown()
    if admission is not None and admission.key is not None:
        added.add(admission.key, grants)
    if hop.trusted:
        added.headers |= shown.headers
        added.params += shown.params
    named = {name.lower() for name in hop.headers}
    more = {name: value for name, value in added.headers.items() if name.lower() not in named}
    there = {part.partition("=")[0] for part in urlsplit(hop.url).query.split("&")}
    url = with_params(hop.url, [(name, value) for name, value in added.params if name not in there])
    return replace(hop, url=url, headers={**hop.headers, **more}), added.secrets


def _request(hop: Hop) -> "httpcore2.Request":
    import httpcore2

    parts = urlsplit(hop.url)
    port = f":{parts.port}" if parts.port else ""
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    if framed := [each for each in hop.headers if each.lower() in FRAMING]:
        raise Invalid(f"The header {framed[0]} cannot be set: a request has one length, and Ostinato writes it.")
    headers = [("Host", f"{name}{port}"), *hop.headers.items()]
    if hop.body or hop.method in ("POST", "PUT", "PATCH"):
        headers.append(("Content-Length", str(len(hop.body))))
    for name, value in headers:
        if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
            raise Invalid(f"The header {name[:100]!r} has characters that are not allowed in a header.")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    url = httpcore2.URL(
        scheme=parts.scheme.encode(),
        host=(parts.hostname or "").encode(),
        port=parts.port,
        target=target.encode(),
    )
    raw = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers]
    return httpcore2.Request(hop.method.encode(), url, headers=raw, content=hop.body)


async def _read(reply: Reply, most: int) -> bytes:
    read = b""
    while len(read) < most:
        part = await reply.read(most - len(read))
        if not part:
            break
        read += part
    return read
