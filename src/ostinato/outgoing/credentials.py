"""Credentials of requests: secrets are read for each request, and not stored elsewhere.

A run has one `Credentials`, which keeps its OAuth 2 token while the token is valid.
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
RENEW_EARLIER: Final = 30.0  # seconds before its end at which a token is renewed
DEFAULT_LIFETIME: Final = 300.0  # seconds, for a token without `expires_in`
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
        """Return the credentials for one request; read the secrets now."""
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
        """Drop the token after a refusal; return True if a new token may help."""
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
                raise BadAnswer("The answer of the token URL has no access_token.", reply.status)
            self._token, self._good_until = token, time.monotonic() + _lifetime(found.get("expires_in"))


def secret_at(reference: str, grants: Grants) -> str:
    """Return a secret that is valid in a header."""
    secret = grants.reveal(reference)
    if not PRINTABLE.fullmatch(secret):
        raise Invalid(
            f"The secret at {reference} cannot be sent in a header: it has spaces or characters beyond ASCII."
        )
    return secret


def _lifetime(said: object) -> float:
    try:
        seconds = float(json.dumps(said).strip('"'))
    except ValueError:
        return DEFAULT_LIFETIME
    return max(min(seconds, 86_400.0) - RENEW_EARLIER, 1.0)
