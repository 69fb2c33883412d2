"""Credentials of requests: secrets are read when a request is sent, and stay in it.

A `Credentials` is made for a run, and keeps the token that it asked for (OAuth 2) for as long as it is good.
"""

import base64
import json
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ostinato.config import Grants
from ostinato.core.auth import Auth, Basic, Bearer, ClientCredentials, InHeader, InQuery
from ostinato.core.errors import BadAnswer, Invalid

if TYPE_CHECKING:
    from ostinato.outgoing.calling import Outgoing

PRINTABLE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")
EARLIER: Final = 30.0  # seconds before its end a token is asked for anew
A_WHILE: Final = 300.0  # seconds that a token is used that does not say how long it is good
FORM: Final = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}


@dataclass(slots=True)
class Shown:
    """The credentials in a request, and the parts to mask."""

    headers: dict[str, str] = field(default_factory=dict)
    params: list[tuple[str, str]] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)

    def add(self, auth: Bearer | Basic | InHeader | InQuery, grants: Grants) -> None:
        match auth:
            case Bearer(token):
                self.in_header("Authorization", "Bearer ", secret_at(token, grants))
            case Basic(username, password):
                word = grants.reveal(password)
                self.secrets.append(word)
                both = base64.b64encode(f"{username}:{word}".encode()).decode()
                self.in_header("Authorization", "Basic ", both)
            case InHeader(name, value):
                self.in_header(name, "", secret_at(value, grants))
            case InQuery(name, value):
                secret = grants.reveal(value)
                self.params.append((name, secret))
                self.secrets += [secret, quote(secret, safe="")]

    def in_header(self, name: str, scheme: str, secret: str) -> None:
        self.headers[name] = scheme + secret
        self.secrets.append(secret)


class Credentials:
    """Credentials of a run's requests."""

    def __init__(self, auth: Auth | None = None) -> None:
        self._auth = auth
        self._token, self._good_until = "", float("-inf")

    async def shown(self, outgoing: "Outgoing") -> Shown:
        """For one request, read now."""
        shown = Shown()
        match self._auth:
            case None:
                pass
            case ClientCredentials() as asked:
                if time.monotonic() >= self._good_until:
                    await self._renew(outgoing, asked)
                shown.in_header("Authorization", "Bearer ", self._token)
            case auth:
                shown.add(auth, outgoing.grants)
        return shown

    def refused(self) -> bool:
        """The other side did not take it: whether another token may help."""
        had, self._good_until = self._token, float("-inf")
        return bool(had)

    async def _renew(self, outgoing: "Outgoing", asked: ClientCredentials) -> None:
        shown = Shown()
        shown.add(Basic(quote(asked.client_id, safe=""), asked.client_secret), outgoing.grants)
        scope = f"&scope={quote(asked.scope)}" if asked.scope else ""
        body = f"grant_type=client_credentials{scope}".encode()
        async with outgoing.request(
            "POST", asked.token_url, headers=FORM | shown.headers, body=body, secrets=shown.secrets
        ) as reply:
            await reply.require_good()
            found = await reply.json()
            token = found.get("access_token") if isinstance(found, dict) else None
            if not isinstance(token, str) or not PRINTABLE.fullmatch(token):
                raise BadAnswer("The answer of the token's URL has no access_token.", reply.status)
            self._token, self._good_until = token, time.monotonic() + _lifetime(found.get("expires_in"))


def secret_at(reference: str, grants: Grants) -> str:
    """A secret that can stand in a header."""
    secret = grants.reveal(reference)
    if not PRINTABLE.fullmatch(secret):
        raise Invalid(
            f"The secret at {reference} cannot stand in a header: it has spaces or letters beyond ASCII."
        )
    return secret


def _lifetime(said: object) -> float:
    try:
        seconds = float(json.dumps(said).strip('"'))
    except ValueError:
        return A_WHILE
    return max(min(seconds, 86_400.0) - EARLIER, 1.0)
