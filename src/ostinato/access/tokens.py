"""Tokens: JWTs with `sub`, `role` and `exp`, checked by one key and one algorithm that the settings fix.

A token does not choose how it is checked: its `alg` must be ours. All times are whole seconds and bounded. A token in
doubt is refused. No error quotes text from a token.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from ostinato.config import Settings
from ostinato.config.kinds import DefaultRole
from ostinato.core.access import LONG_AGO, Admission, Caller, Role, is_reserved
from ostinato.core.errors import Invalid, InvalidSetting, NotFound, Unauthorized
from ostinato.core.times import format_duration
from ostinato.service.access import CLOCKS_DIFFER

LONGEST_TOKEN: Final = 8192  # characters
LONGEST_NAME: Final = 255
LEAST_SECRET: Final = 32  # bytes
LEAST_RSA: Final = 2048  # bits
ROUNDS: Final = 100_000  # the database holds the fingerprint of a secret: guessing the secret from it must be slow
RESERVED_NAME: Final = "The name of a token (sub) may be neither anonymous nor declaration, nor begin with key:."

Key = str | RSAPublicKey | Ed25519PublicKey
Claims = Mapping[str, Any]


@dataclass(frozen=True, slots=True, repr=False)
class Tokens:
    """Check of tokens; with a secret also their issue."""

    algorithm: str
    key: Key
    audience: str
    issuer: str
    longest: timedelta
    default_role: DefaultRole

    @classmethod
    def of(cls, settings: Settings) -> "Tokens | None":
        """Build from the settings; None if they have no key for tokens."""
        if not settings.auth_secret and not settings.auth_public_key:
            return None
        algorithm, key = (
            _secret(settings.auth_secret.reveal())
            if settings.auth_secret
            else _public_key(settings.auth_public_key.reveal())
        )
        return cls(
            algorithm, key, settings.auth_audience, settings.auth_issuer, settings.auth_lifetime,
            settings.auth_default_role,
        )  # fmt: skip

    @property
    def signer(self) -> str:
        """Return the fingerprint of the key that verifies tokens."""
        if isinstance(self.key, str):
            return _fingerprint(self.key.encode())
        return _fingerprint(self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))

    def admit(self, token: str, now: datetime) -> Admission:
        """Check a token; raise Unauthorized if it is not valid now."""
        if len(token) > LONGEST_TOKEN:
            raise Unauthorized("The token is too long.")
        claims = self._verified(token)
        self._check_times(claims, int(now.timestamp()))
        self._check_names(claims)
        caller = Caller(_name(claims.get("sub")), self._role(claims))
        until, issued_at = (LONG_AGO + timedelta(seconds=claims.get(name, 0)) for name in ("exp", "iat"))
        return Admission(caller, credential_of(token), until, issued_at, self.signer)

    def _role(self, claims: Claims) -> Role:
        """Read the role; the default is for tokens without `role`."""
        value = claims.get("role", self.default_role.value)
        if isinstance(value, str) and value in set(Role):
            return Role(value)
        raise Unauthorized(f"The token has no valid role. Roles are {', '.join(Role)}.")

    def issue(self, name: str, role: Role, now: datetime, lifetime: timedelta) -> str:
        """Sign a new token; raise Invalid if only a public key is set."""
        if not isinstance(self.key, str):
            raise Invalid("Tokens are signed elsewhere: only a public key is set here, OSTINATO_AUTH_PUBLIC_KEY.")
        if not timedelta(seconds=1) <= lifetime <= self.longest:
            longest = format_duration(self.longest)
            raise Invalid(
                f"The lifetime of a token is 1s to {longest}. Choose one in this range, or set OSTINATO_AUTH_LIFETIME."
            )
        if not _is_name(name):
            raise Invalid(f"A token needs a name, of at most {LONGEST_NAME} printable characters.")
        if is_reserved(name):
            raise Invalid(RESERVED_NAME)
        at = int(now.timestamp())
        claims = {
            "sub": name,
            "role": role.value,
            "iat": at,
            "exp": at + int(lifetime.total_seconds()),
        }
        named = {"aud": self.audience, "iss": self.issuer}
        return jwt.encode(claims | {claim: value for claim, value in named.items() if value}, self.key, self.algorithm)

    def _verified(self, token: str) -> Claims:
        """Check the signature before anything else, and return the claims."""
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
            raise Unauthorized("The token has no expiry (exp).")
        if until <= now:
            raise Unauthorized("The token has expired.")
        if max(since or 0, begins or 0) > now + CLOCKS_DIFFER.total_seconds():
            raise Unauthorized("The token is not valid yet.")
        begun = now if since is None else min(since, now)
        if until - begun > (self.longest + CLOCKS_DIFFER).total_seconds():
            raise Unauthorized("The lifetime of the token is too long.")

    def _check_names(self, claims: Claims) -> None:
        audience = claims.get("aud")
        meant = audience if isinstance(audience, list) else [] if audience is None else [audience]
        if (self.audience or meant) and self.audience not in meant:
            raise Unauthorized("The token has another audience (aud).")
        if self.issuer and claims.get("iss") != self.issuer:
            raise Unauthorized("The token has another issuer (iss).")


def credential_of(token: str) -> str:
    """Return the id of a token: a hash of its signed part.

    The hash excludes the signature: it can be written with or without padding, which would give two ids.
    """
    signed = token.rpartition(".")[0]
    return f"token:{hashlib.sha256(signed.encode('utf-8', 'replace')).hexdigest()[:32]}"


def expiry_of(token: str) -> tuple[str, datetime | None]:
    """Return the id and the expiry of a token, also if another server signed it; NotFound if it is not a token."""
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
        until = claims["exp"]
    except (jwt.PyJWTError, ValueError, TypeError, LookupError, RecursionError):
        raise NotFound("This is not a token. Copy the whole token, or revoke an API key by its id.") from None
    try:
        return credential_of(token), LONG_AGO + timedelta(seconds=until)
    except (OverflowError, TypeError, ValueError):
        return credential_of(token), None


@cache
def _fingerprint(key: bytes) -> str:
    return hashlib.pbkdf2_hmac("sha256", key, b"ostinato signer", ROUNDS).hex()[:32]


SIGNATURE_ONLY: Final[Any] = {  # this module checks the claims itself, with the clock of the service
    "verify_signature": True,
    **{f"verify_{name}": False for name in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")},
}


def _instant(claims: Claims, name: str) -> int | None:
    value = claims.get(name)
    if name in claims and (type(value) is not int or value < 0):
        raise Unauthorized(f"The token is not valid: {name} must be a whole number of seconds.")
    return value


def _name(value: object) -> str:
    if not isinstance(value, str) or not _is_name(value):
        raise Unauthorized("The token has no valid name (sub).")
    if is_reserved(value):
        raise Unauthorized(RESERVED_NAME)
    return value


def _is_name(text: str) -> bool:
    return len(text) <= LONGEST_NAME and text.isprintable() and bool(text.strip())


def _secret(text: str) -> tuple[str, Key]:
    if len(text.encode()) < LEAST_SECRET:
        raise InvalidSetting(f"auth_secret must have at least {LEAST_SECRET} bytes.")
    try:
        jwt.get_algorithm_by_name("HS256").prepare_key(text)
    except jwt.InvalidKeyError:
        raise InvalidSetting(
            "auth_secret is the key of a pair: set auth_public_key, or choose another secret."
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
            raise InvalidSetting(f"auth_public_key must be an RSA key of at least {LEAST_RSA} bits, or an Ed25519 key.")
