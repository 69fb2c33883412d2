"""Tokens: JWTs with `sub`, `role` and `exp`, checked by one key and one algorithm that the settings fix.

The token has no say in how it is checked: its `alg` must be ours. All times are whole seconds and bounded; a token
that cannot be told from a wrong one is a wrong one. What is refused is refused with a sentence that quotes nothing
from the token.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from ostinato.config import Settings
from ostinato.core.access import Caller, Role
from ostinato.core.duration import format_duration
from ostinato.core.errors import Invalid, InvalidSetting, Unauthorized

LONGEST_TOKEN: Final = 8192  # characters
LONGEST_NAME: Final = 255
CLOCKS_DIFFER: Final = 5  # seconds by which the clock of whoever made a token may be ahead of ours
LEAST_SECRET: Final = 32  # bytes
LEAST_RSA: Final = 2048  # bits

Key = str | RSAPublicKey | Ed25519PublicKey
Claims = Mapping[str, Any]


@dataclass(frozen=True, slots=True, repr=False)
class Tokens:
    """Checks tokens, and makes them where we hold the secret."""

    algorithm: str
    key: Key
    audience: str
    issuer: str
    longest: timedelta

    @classmethod
    def of(cls, settings: Settings) -> "Tokens | None":
        """As the settings say; None when they have no key for tokens."""
        if not settings.auth_secret and not settings.auth_public_key:
            return None
        algorithm, key = (
            _secret(settings.auth_secret.reveal())
            if settings.auth_secret
            else _public_key(settings.auth_public_key.reveal())
        )
        return cls(algorithm, key, settings.auth_audience, settings.auth_issuer, settings.auth_lifetime)

    def read(self, token: str, now: datetime) -> Caller:
        """Who comes with this token; Unauthorized if it is not good now."""
        return self.admit(token, now)[0]

    def admit(self, token: str, now: datetime) -> tuple[Caller, datetime]:
        """Who comes with this token, and until when it is good; Unauthorized if it is not good now."""
        if len(token) > LONGEST_TOKEN:
            raise Unauthorized("The token is too long.")
        claims = self._verified(token)
        self._check_times(claims, int(now.timestamp()))
        self._check_names(claims)
        caller = Caller(_name(claims.get("sub")), _role(claims.get("role")))
        return caller, now + timedelta(seconds=int(claims["exp"]) - int(now.timestamp()))

    def issue(self, name: str, role: Role, now: datetime, lifetime: timedelta) -> str:
        """A token for somebody; only where tokens are signed by a secret."""
        if not isinstance(self.key, str):
            raise Invalid(
                "Tokens are signed elsewhere: only a public key is set here, OSTINATO_AUTH_PUBLIC_KEY."
            )
        if not timedelta(seconds=1) <= lifetime <= self.longest:
            longest = format_duration(self.longest)
            raise Invalid(
                f"A token is good for 1s to {longest}: ask for something between, or set OSTINATO_AUTH_LIFETIME."
            )
        if not _is_name(name):
            raise Invalid(f"A token needs a name, of at most {LONGEST_NAME} printable characters.")
        at = int(now.timestamp())
        claims = {
            "sub": name,
            "role": role.value,
            "iat": at,
            "exp": at + int(lifetime.total_seconds()),
        }
        named = {"aud": self.audience, "iss": self.issuer}
        return jwt.encode(
            claims | {claim: value for claim, value in named.items() if value}, self.key, self.algorithm
        )

    def _verified(self, token: str) -> Claims:
        """The claims, if the signature is ours. Nothing else is looked at before that."""
        try:
            return jwt.decode(token, self.key, algorithms=[self.algorithm], options=SIGNATURE_ONLY)
        except jwt.InvalidAlgorithmError:
            raise Unauthorized(f"The token is not signed with {self.algorithm}.") from None
        except jwt.InvalidSignatureError:
            raise Unauthorized("The signature of the token is wrong.") from None
        except (jwt.PyJWTError, ValueError, TypeError, LookupError, RecursionError):
            raise Unauthorized("The token cannot be read.") from None

    def _check_times(self, claims: Claims, now: int) -> None:
        until, since, begins = (_instant(claims, name) for name in ("exp", "iat", "nbf"))
        if until is None:
            raise Unauthorized("The token does not say until when it is good (exp).")
        if until <= now:
            raise Unauthorized("The token has expired.")
        if max(since or 0, begins or 0) > now + CLOCKS_DIFFER:
            raise Unauthorized("The token is not good yet.")
        begun = now if since is None else min(since, now)
        if until - begun > self.longest.total_seconds() + CLOCKS_DIFFER:
            raise Unauthorized("The token is good for too long a time.")

    def _check_names(self, claims: Claims) -> None:
        audience = claims.get("aud")
        meant = audience if isinstance(audience, list) else [] if audience is None else [audience]
        if (self.audience or meant) and self.audience not in meant:
            raise Unauthorized("The token is meant for somebody else (aud).")
        if self.issuer and claims.get("iss") != self.issuer:
            raise Unauthorized("The token was made by somebody else (iss).")


SIGNATURE_ONLY: Final[Any] = {  # the claims are checked here, against a clock that is handed over
    "verify_signature": True,
    **{f"verify_{name}": False for name in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")},
}


def _instant(claims: Claims, name: str) -> int | None:
    value = claims.get(name)
    if name in claims and (type(value) is not int or value < 0):
        raise Unauthorized(f"The token is wrong: {name} must be a whole number of seconds.")
    return value


def _name(value: object) -> str:
    if isinstance(value, str) and _is_name(value):
        return value
    raise Unauthorized("The token does not say who comes (sub).")


def _is_name(text: str) -> bool:
    return len(text) <= LONGEST_NAME and text.isprintable() and bool(text.strip())


def _role(value: object) -> Role:
    if isinstance(value, str) and value in set(Role):
        return Role(value)
    raise Unauthorized(f"The token has no role; there are {', '.join(Role)}.")


def _secret(text: str) -> tuple[str, Key]:
    if len(text.encode()) < LEAST_SECRET:
        raise InvalidSetting(f"auth_secret must have at least {LEAST_SECRET} bytes.")
    try:
        jwt.get_algorithm_by_name("HS256").prepare_key(text)
    except jwt.InvalidKeyError:
        raise InvalidSetting(
            "auth_secret is the key of a pair: set auth_public_key, or take another secret."
        ) from None
    return "HS256", text


def _public_key(text: str) -> tuple[str, Key]:
    try:
        key = load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidSetting("auth_public_key cannot be read: it must be a public key in PEM.") from None
    match key:
        case RSAPublicKey() if key.key_size >= LEAST_RSA:
            return "RS256", key
        case Ed25519PublicKey():
            return "EdDSA", key
        case _:
            raise InvalidSetting(
                f"auth_public_key must be an RSA key of at least {LEAST_RSA} bits, or an Ed25519 key."
            )
