"""Tokens: JWTs with `sub`, `role` and `exp`, checked by one key and one algorithm that the settings fix.

The token has no say in how it is checked: its `alg` must be ours. All times are whole seconds and bounded; a token
that cannot be told from a wrong one is a wrong one. What is refused is refused with a sentence that quotes nothing
from the token.
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
from ostinato.core.duration import format_duration
from ostinato.core.errors import Invalid, InvalidSetting, NotFound, Unauthorized
from ostinato.service.access import CLOCKS_DIFFER

LONGEST_TOKEN: Final = 8192  # characters
LONGEST_NAME: Final = 255
LEAST_SECRET: Final = 32  # bytes
LEAST_RSA: Final = 2048  # bits
ROUNDS: Final = (
    100_000  # the fingerprint of a secret is in the database: guessing the secret from it must be slow
)
RESERVED_NAME: Final = (
    "The name of a token (sub) may be neither anonymous nor declaration, nor begin with key:."
)

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
    default_role: DefaultRole

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
        """Check a token; Unauthorized if it is not good now."""
        if len(token) > LONGEST_TOKEN:
            raise Unauthorized("The token is too long.")
        claims = self._verified(token)
        self._check_times(claims, int(now.timestamp()))
        self._check_names(claims)
        caller = Caller(_name(claims.get("sub")), self._role(claims))
        until, issued_at = (LONG_AGO + timedelta(seconds=claims.get(name, 0)) for name in ("exp", "iat"))
        return Admission(caller, credential_of(token), until, issued_at, self.signer)

    def _role(self, claims: Claims) -> Role:
        """Read the role; the default is for tokens that say nothing about it."""
        value = claims.get("role", self.default_role.value)
        if isinstance(value, str) and value in set(Role):
            return Role(value)
        raise Unauthorized(f"The token has no role; there are {', '.join(Role)}.")

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
        if max(since or 0, begins or 0) > now + CLOCKS_DIFFER.total_seconds():
            raise Unauthorized("The token is not good yet.")
        begun = now if since is None else min(since, now)
        if until - begun > (self.longest + CLOCKS_DIFFER).total_seconds():
            raise Unauthorized("The token is good for too long a time.")

    def _check_names(self, claims: Claims) -> None:
        audience = claims.get("aud")
        meant = audience if isinstance(audience, list) else [] if audience is None else [audience]
        if (self.audience or meant) and self.audience not in meant:
            raise Unauthorized("The token is meant for somebody else (aud).")
        if self.issuer and claims.get("iss") != self.issuer:
            raise Unauthorized("The token was made by somebody else (iss).")


def credential_of(token: str) -> str:
    """Return the id of a token: a hash of the part that is signed.

    The signature is left out: one signature can be written with padding or without, and each would be another id.
    """
    signed = token.rpartition(".")[0]
    return f"token:{hashlib.sha256(signed.encode('utf-8', 'replace')).hexdigest()[:32]}"


def expiry_of(token: str) -> tuple[str, datetime | None]:
    """Return the id of a token and when it expires, also of one that another server signed; NotFound if it is none."""
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
        until = claims["exp"]
    except (jwt.PyJWTError, ValueError, TypeError, LookupError, RecursionError):
        raise NotFound("This is not a token: copy it whole. An API key is ended by its id.") from None
    try:
        return credential_of(token), LONG_AGO + timedelta(seconds=until)
    except (OverflowError, TypeError, ValueError):
        return credential_of(token), None


@cache
def _fingerprint(key: bytes) -> str:
    return hashlib.pbkdf2_hmac("sha256", key, b"ostinato signer", ROUNDS).hex()[:32]


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
    if not isinstance(value, str) or not _is_name(value):
        raise Unauthorized("The token does not say who comes (sub).")
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
