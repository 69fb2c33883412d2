"""Refused credentials: counted, and reported at most once a minute for each address.

The REST API and the dashboard put a `Refusal` in the scope of a request; the middleware here counts it. The first
refusal of an address is a log line and an event at once. Later ones are reported together, by the first request after
a minute.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ostinato.core.access import BEARER, is_key
from ostinato.core.errors import StoreError
from ostinato.core.payload import LogMessage
from ostinato.service import Service
from ostinato.service.access import Refused
from ostinato.telemetry.reports import Counts

log = logging.getLogger("ostinato.access")

REPORT_EVERY: Final = 60.0  # seconds
MOST_ADDRESSES: Final = 100  # counted separately; all others are counted together
OTHERS: Final = "others"
REFUSED: Final = "refused"  # the key of a refusal in the state of a request
# A missing credential or an old session is not an attack: it is only counted.
REPORTED: Final = ("token", "key")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Kind of a credential that was refused (token, key, session, none), and the reason."""

    kind: str
    reason: str

    @classmethod
    def of(cls, headers: Headers, reason: str) -> "Refusal":
        given = headers.get("x-api-key") or headers.get("authorization")
        if given is None:
            return cls("session" if "cookie" in headers else "none", reason)
        bearer = BEARER.fullmatch(given)
        return cls.of_text(bearer["credential"] if bearer else given, reason)

    @classmethod
    def of_text(cls, credential: str, reason: str) -> "Refusal":
        return cls("key" if is_key(credential) else "token", reason)


@dataclass(slots=True)
class _Counted:
    reason: str = ""
    count: int = 0
    reported_at: float = float("-inf")


class RefusalTable:
    """Refusals by address that are not reported yet. Time is an argument."""

    def __init__(self) -> None:
        self._by_address: dict[str, _Counted] = {}
        self.due_at = float("inf")

    def add(self, address: str, reason: str) -> None:
        known = address in self._by_address or len(self._by_address) < MOST_ADDRESSES
        counted = self._by_address.setdefault(address if known else OTHERS, _Counted())
        counted.reason = counted.reason if counted.count else reason
        counted.count += 1
        self.due_at = min(self.due_at, counted.reported_at + REPORT_EVERY)

    def take_due(self, now: float) -> list[Refused]:
        """Take out the refusals to report now; drop addresses without a refusal for a minute."""
        due = []
        for address, counted in list(self._by_address.items()):
            if now - counted.reported_at < REPORT_EVERY:
                continue
            if counted.count == 0:
                del self._by_address[address]
                continue
            due.append(Refused(address, counted.reason, counted.count))
            counted.count, counted.reported_at = 0, now
        self.due_at = min((each.reported_at + REPORT_EVERY for each in self._by_address.values()), default=float("inf"))
        return due


class RefusalLog:
    """Middleware that counts and reports refused credentials. Use it on one event loop."""

    def __init__(
        self, app: ASGIApp, service: Service, counts: Counts, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._app, self._service, self._counts, self._monotonic = app, service, counts, monotonic
        self._table = RefusalTable()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._report_due()
        try:
            await self._app(scope, receive, send)
        finally:
            refusal = scope.get("state", {}).get(REFUSED)
            if refusal is not None:
                self._note(refusal, scope)
                await self._report_due()

    def _note(self, refusal: Refusal, scope: Scope) -> None:
        self._counts.add("access_refused", refusal.kind)
        if refusal.kind in REPORTED:
            client = scope.get("client")
            self._table.add(client[0] if client else "unknown", refusal.reason)

    async def _report_due(self) -> None:
        now = self._monotonic()
        if now < self._table.due_at:
            return
        due = self._table.take_due(now)
        for each in due:
            fields = {"address": each.address, "reason": each.reason, "count": each.count}
            log.warning(LogMessage("Credential refused", fields))
        if due:
            with suppress(StoreError):  # the log has it already
                await run_in_threadpool(self._service.access.tell_refused, due)
