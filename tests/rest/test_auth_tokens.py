"""Tokens: valid ones, and every kind of invalid one."""

import base64
import hashlib
import hmac
import json
from datetime import timedelta

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as new_ec_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as new_rsa_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from ostinato.access.tokens import Tokens
from ostinato.config import Settings
from ostinato.core.access import Caller, Role
from ostinato.core.errors import Invalid, InvalidSetting, Unauthorized
from tests.build import DAY, HOUR, NOW, SECOND

SECRET = "0123456789abcdef0123456789abcdef"
T = int(NOW.timestamp())
GOOD = {"sub": "ann", "role": "operator", "exp": T + 3600}
ANN = Caller("ann", Role.OPERATOR)


def tokens(**settings) -> Tokens:
    made = Tokens.of(Settings(**{"auth_secret": SECRET} | settings))
    assert made is not None
    return made


def b64(value: object) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(claims: object, header: object = None, key: str = SECRET) -> str:
    """Sign a token by hand: a library would refuse to make most of these."""
    text = f"{b64(header or {'alg': 'HS256', 'typ': 'JWT'})}.{b64(claims)}"
    return f"{text}.{b64(hmac.new(key.encode(), text.encode(), hashlib.sha256).digest())}"


def refusal(token: str, **settings) -> str:
    with pytest.raises(Unauthorized) as refused:
        tokens(**settings).admit(token, NOW)
    return str(refused.value)


def without(claim: str) -> dict[str, object]:
    return {name: value for name, value in GOOD.items() if name != claim}


def test_a_good_token_says_who_comes():
    assert tokens().admit(signed(GOOD), NOW).caller == ANN


@pytest.mark.parametrize(
    "claims",
    [
        GOOD | {"iat": T},
        GOOD | {"iat": T + 5},  # clocks differ
        GOOD | {"nbf": T + 5},
        GOOD | {"iat": T - 3600, "exp": T + 1},
        GOOD | {"exp": T + 30 * 86400},
        GOOD | {"anything": {"else": [1, 2]}},
        GOOD | {"iss": "whoever"},
    ],
)
def test_what_else_is_good(claims):
    assert tokens().admit(signed(claims), NOW).caller == ANN


WRONG_TIME = "must be a whole number of seconds"


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        (without("exp"), "has no expiry"),
        (GOOD | {"exp": T}, "has expired"),
        (GOOD | {"exp": T - 1}, "has expired"),
        (GOOD | {"exp": 0}, "has expired"),
        (GOOD | {"exp": -1}, WRONG_TIME),
        (GOOD | {"exp": T + 60.5}, WRONG_TIME),
        (GOOD | {"exp": float(T + 60)}, WRONG_TIME),
        (GOOD | {"exp": str(T + 60)}, WRONG_TIME),
        (GOOD | {"exp": True}, WRONG_TIME),
        (GOOD | {"exp": None}, WRONG_TIME),
        (GOOD | {"exp": [T + 60]}, WRONG_TIME),
        (GOOD | {"exp": float("inf")}, WRONG_TIME),
        (GOOD | {"exp": float("nan")}, WRONG_TIME),
        (GOOD | {"exp": T + 31 * 86400}, "lifetime of the token is too long"),
        (GOOD | {"exp": 10**300}, "lifetime of the token is too long"),
        (GOOD | {"iat": T - 30 * 86400}, "lifetime of the token is too long"),
        (GOOD | {"iat": T + 6}, "not valid yet"),
        (GOOD | {"nbf": T + 6}, "not valid yet"),
        (GOOD | {"iat": "now"}, WRONG_TIME),
        (GOOD | {"nbf": 1.5}, WRONG_TIME),
        (without("sub"), "no valid name"),
        (GOOD | {"sub": ""}, "no valid name"),
        (GOOD | {"sub": " "}, "no valid name"),
        (GOOD | {"sub": 7}, "no valid name"),
        (GOOD | {"sub": "a\nb"}, "no valid name"),
        (GOOD | {"sub": "a\0"}, "no valid name"),
        (GOOD | {"sub": "\ud800"}, "no valid name"),
        (GOOD | {"sub": "a" * 256}, "no valid name"),
        (GOOD | {"sub": "anonymous"}, "may be neither"),
        (GOOD | {"sub": "declaration"}, "may be neither"),
        (GOOD | {"sub": " Anonymous "}, "may be neither"),
        (GOOD | {"sub": "key:deploy~ab12"}, "nor begin with key:"),
        (without("role"), "has no valid role"),
        (GOOD | {"role": "root"}, "has no valid role"),
        (GOOD | {"role": "ADMIN"}, "has no valid role"),
        (GOOD | {"role": ["admin"]}, "has no valid role"),
        (GOOD | {"role": None}, "has no valid role"),
        (GOOD | {"aud": "another"}, "another audience (aud)"),
    ],
)
def test_claims_that_are_not_good(claims, why):
    sentence = refusal(signed(claims))
    assert why in sentence
    assert SECRET not in sentence


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("", "cannot be read"),
        (".", "cannot be read"),
        ("..", "cannot be read"),
        ("a.b", "cannot be read"),
        ("a.b.c", "cannot be read"),
        ("a.b.c.d", "cannot be read"),
        ("é.é.é", "cannot be read"),
        (signed(GOOD) + "é", "cannot be read"),
        (signed([GOOD]), "cannot be read"),
        (signed("ann"), "cannot be read"),
        (signed(b"not json"), "cannot be read"),
        (signed(b"[" * 5000), "cannot be read"),
        (signed(GOOD, header=b"[" * 4000), "cannot be read"),
        (signed(GOOD, header=[1]), "cannot be read"),
        (signed(GOOD, header={"typ": "JWT"}), "not signed with HS256"),
        (signed(GOOD, header={"alg": "HS256", "kid": 7}), "cannot be read"),
        (signed(GOOD, header={"alg": "HS256", "crit": ["other"]}), "cannot be read"),
        (signed(GOOD, header={"alg": "HS256", "b64": False}), "cannot be read"),
        (signed(GOOD, header={"alg": "HS512"}), "not signed with HS256"),
        (signed(GOOD, header={"alg": "RS256"}), "not signed with HS256"),
        (signed(GOOD, header={"alg": "hs256"}), "not signed with HS256"),
        (signed(GOOD, header={"alg": "none"}), "not signed with HS256"),
        (signed(GOOD, header={"alg": ["HS256"]}), "not signed with HS256"),
        (f"{b64({'alg': 'none'})}.{b64(GOOD)}.", "not signed with HS256"),
        (f"{b64({'alg': 'HS256'})}.{b64(GOOD)}.", "signature"),
        (signed(GOOD, key=SECRET[::-1]), "signature"),
        (signed(GOOD)[:-7], "signature"),
        (signed({**GOOD, "x": "y" * 9000}), "too long"),
    ],
)
def test_tokens_that_are_not_ours(token, why):
    sentence = refusal(token)
    assert why in sentence
    assert SECRET not in sentence


def test_a_changed_claim_breaks_the_signature():
    header, _, signature = signed(GOOD).split(".")
    assert "signature" in refusal(f"{header}.{b64(GOOD | {'role': 'admin'})}.{signature}")


@given(st.text(max_size=200) | st.from_regex(r"\A[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}\Z"))
def test_whatever_comes_instead_of_a_token_is_refused(text):
    with pytest.raises(Unauthorized):
        tokens().admit(text, NOW)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_whatever_is_signed_by_us_and_makes_no_sense_is_refused(header, claims):
    with pytest.raises(Unauthorized):
        tokens().admit(signed(claims, header=header or b"{}"), NOW)


# -- the default role


def test_a_token_without_a_role_gets_the_default_and_a_wrong_role_stays_wrong():
    ours = tokens(auth_default_role="viewer")
    assert ours.admit(signed(without("role")), NOW).caller == Caller("ann", Role.VIEWER)
    assert ours.admit(signed(GOOD), NOW).caller == ANN
    for wrong in ("root", "", None, ["viewer"], "none"):
        assert "has no valid role" in refusal(signed(GOOD | {"role": wrong}), auth_default_role="viewer")
    assert "has no valid role" in refusal(signed(GOOD | {"role": "none"}))


def test_the_fingerprint_of_the_key_changes_with_it_and_does_not_show_it(rsa, ed25519):
    signers = [tokens().signer, tokens(auth_secret=SECRET[::-1]).signer, with_key(pem(rsa)).signer]
    assert len({*signers, with_key(pem(ed25519)).signer}) == 4
    assert tokens().signer == signers[0]
    assert SECRET[:8] not in signers[0]


# -- audience and issuer


@pytest.mark.parametrize(
    ("audience", "good"),
    [
        ("ostinato", True),
        (["other", "ostinato"], True),
        ("other", False),
        (["other"], False),
        ([], False),
        (None, False),
        ({"ostinato": 1}, False),
        ([["ostinato"]], False),
    ],
)
def test_a_token_must_be_meant_for_us(audience, good):
    token = signed(GOOD if audience is None else GOOD | {"aud": audience})
    if good:
        assert tokens(auth_audience="ostinato").admit(token, NOW).caller == ANN
    else:
        assert "(aud)" in refusal(token, auth_audience="ostinato")


@pytest.mark.parametrize("issuer", [None, "eve", ["idp"], 1])
def test_a_token_must_be_made_by_the_issuer(issuer):
    token = signed(GOOD if issuer is None else GOOD | {"iss": issuer})
    assert "(iss)" in refusal(token, auth_issuer="idp")
    assert tokens(auth_issuer="idp").admit(signed(GOOD | {"iss": "idp"}), NOW).caller == ANN


# -- public keys


def pem(private) -> str:
    return private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


@pytest.fixture(scope="module")
def rsa():
    return new_rsa_key(65537, 2048)


@pytest.fixture(scope="module")
def ed25519():
    return Ed25519PrivateKey.generate()


def with_key(public: str) -> Tokens:
    made = Tokens.of(Settings(auth_public_key=public))
    assert made is not None
    return made


def test_the_kind_of_the_key_fixes_the_algorithm(rsa, ed25519):
    assert with_key(pem(rsa)).admit(jwt.encode(GOOD, rsa, "RS256"), NOW).caller == ANN
    assert with_key(pem(ed25519)).admit(jwt.encode(GOOD, ed25519, "EdDSA"), NOW).caller == ANN
    for key, token in (
        (rsa, jwt.encode(GOOD, rsa, "RS512")),
        (rsa, jwt.encode(GOOD, rsa, "PS256")),
        (rsa, jwt.encode(GOOD, ed25519, "EdDSA")),
        (ed25519, jwt.encode(GOOD, rsa, "RS256")),
        (ed25519, signed(GOOD)),
    ):
        with pytest.raises(Unauthorized, match="not signed with"):
            with_key(pem(key)).admit(token, NOW)


def test_a_public_key_is_no_secret(rsa):
    """A known attack: a token signed by HS256 with the public key as secret."""
    for text in (pem(rsa), pem(rsa).strip()):
        with pytest.raises(Unauthorized, match="not signed with RS256"):
            with_key(pem(rsa)).admit(signed(GOOD, key=text), NOW)


def test_another_key_of_the_same_kind_is_not_good(rsa):
    with pytest.raises(Unauthorized, match="signature"):
        with_key(pem(rsa)).admit(jwt.encode(GOOD, new_rsa_key(65537, 2048), "RS256"), NOW)


def test_keys_that_cannot_be_used(rsa):
    for public in (
        "-----BEGIN PUBLIC KEY-----\nnonsense\n-----END PUBLIC KEY-----",
        pem(new_rsa_key(65537, 1024)),
        pem(new_ec_key(SECP256R1())),
    ):
        with pytest.raises(InvalidSetting, match="auth_public_key"):
            with_key(public)
    private = rsa.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    for secret in (pem(rsa), private):
        with pytest.raises(InvalidSetting, match="auth_secret is the key of a pair"):
            tokens(auth_secret=secret)


def test_a_secret_by_reference_must_be_long_enough_too(tmp_path):
    (tmp_path / "secret").write_text("short")
    with pytest.raises(InvalidSetting, match="at least 32 bytes"):
        tokens(auth_secret=f"file:{tmp_path}/secret")
    (tmp_path / "secret").write_text(SECRET + "\n")
    assert tokens(auth_secret=f"file:{tmp_path}/secret").admit(signed(GOOD), NOW).caller == ANN


def test_without_a_key_there_are_no_tokens():
    assert Tokens.of(Settings()) is None


def test_no_repr_shows_the_secret():
    assert SECRET not in f"{tokens()!r} {tokens()}"


# -- making tokens


def test_a_token_that_we_make_is_good_until_its_time():
    ours = tokens(auth_audience="ostinato", auth_issuer="us")
    token = ours.issue("ann", Role.OPERATOR, NOW, HOUR)
    assert ours.admit(token, NOW).caller == ours.admit(token, NOW + HOUR - SECOND).caller == ANN
    with pytest.raises(Unauthorized, match="expired"):
        ours.admit(token, NOW + HOUR)


def test_no_token_is_made_that_would_be_refused(rsa):
    for lifetime in (timedelta(0), 31 * DAY):
        with pytest.raises(Invalid):
            tokens().issue("ann", Role.ADMIN, NOW, lifetime)
    for name in ("", " ", "a\nb", "a" * 256):
        with pytest.raises(Invalid, match="needs a name"):
            tokens().issue(name, Role.ADMIN, NOW, HOUR)
    for name in ("anonymous", "declaration", "key:ci"):
        with pytest.raises(Invalid, match="may be neither"):
            tokens().issue(name, Role.ADMIN, NOW, HOUR)
    with pytest.raises(Invalid, match="signed elsewhere"):
        with_key(pem(rsa)).issue("ann", Role.ADMIN, NOW, HOUR)


def test_roles_rise():
    order = [Role.VIEWER, Role.OPERATOR, Role.ADMIN]
    assert [[role.allows(needed) for needed in order] for role in order] == [
        [True, False, False], [True, True, False], [True, True, True],
    ]  # fmt: skip
