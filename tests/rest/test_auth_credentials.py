"""Recognition of callers by the headers of a request."""

from datetime import timedelta

import pytest
from starlette.datastructures import Headers

from ostinato import Ostinato
from ostinato.access.credentials import (
    anybody,
    on_loopback,
    recogniser,
    require_safe_binding,
)
from ostinato.access.tokens import Tokens
from ostinato.config import Settings
from ostinato.core.access import ANONYMOUS, Caller, Role
from ostinato.core.errors import Forbidden, InvalidSetting, Unauthorized

SECRET = "0123456789abcdef0123456789abcdef"
HOUR = timedelta(hours=1)


def headers(*pairs: tuple[str, str]) -> Headers:
    return Headers(raw=[(name.lower().encode(), value.encode("latin-1")) for name, value in pairs])


@pytest.fixture
def service(database_url):
    app = Ostinato("shop", database_url=database_url)
    app.open(upgrade=True)
    yield app.scheduler
    app.close()


@pytest.fixture
def recognise(service):
    check = recogniser(Settings(auth_secret=SECRET), service)
    return lambda headers: check(headers).caller


@pytest.fixture
def token(service):
    return Tokens.of(Settings(auth_secret=SECRET)).issue("ann", Role.OPERATOR, service.now(), HOUR)


@pytest.fixture
def key(service):
    return service.keys.create("ci", Role.VIEWER).text


ANN = Caller("ann", Role.OPERATOR)


def of_key(key: str) -> Caller:
    return Caller(f"key:ci~{key[4:8]}", Role.VIEWER)


def test_tokens_and_keys_are_recognised(recognise, token, key):
    assert recognise(headers(("Authorization", f"Bearer {token}"))) == ANN
    assert recognise(headers(("authorization", f"bEARER  {token} "))) == ANN
    assert recognise(headers(("Authorization", f"Bearer {key}"))) == of_key(key)
    assert recognise(headers(("X-API-Key", key))) == of_key(key)


def test_one_credential_is_enough_and_two_are_too_many(recognise, token, key):
    bearer = ("Authorization", f"Bearer {token}")
    for two in ((bearer, bearer), (bearer, ("X-API-Key", key)), (("X-API-Key", key), ("X-API-Key", key))):
        with pytest.raises(Unauthorized, match="more than one"):
            recognise(headers(*two))


@pytest.mark.parametrize(
    "pairs",
    [
        (),
        (("Cookie", "token={token}"),),
        (("Authorization", ""),),
        (("Authorization", "Bearer"),),
        (("Authorization", "Bearer "),),
        (("Authorization", "Bearer a b"),),
        (("Authorization", "Bearer {token} {token}"),),
        (("Authorization", "Bearer {token},Bearer {token}"),),
        (("Authorization", "Basic {token}"),),
        (("Authorization", "{token}"),),
        (("Authorization", "Bearer:{token}"),),
        (("Authorization", "Bearer é"),),
        (("Authorization", "Bearer ."),),
        (("Authorization", "Bearer .."),),
        (("X-API-Key", ""),),
        (("X-API-Key", "é.é"),),
        (("X-API-Key", "a" * 100_000),),
    ],
)
def test_what_is_no_credential_is_refused(recognise, token, pairs):
    with pytest.raises(Unauthorized) as refused:
        recognise(headers(*((name, value.format(token=token)) for name, value in pairs)))
    assert token not in str(refused.value)


def test_a_credential_is_good_by_the_one_clock(recognise, service):
    old = Tokens.of(Settings(auth_secret=SECRET)).issue("ann", Role.ADMIN, service.now() - 2 * HOUR, HOUR)
    with pytest.raises(Unauthorized, match="expired"):
        recognise(headers(("Authorization", f"Bearer {old}")))


def test_keys_alone_are_a_way_too(service, token, key):
    recognise = recogniser(Settings(auth_required=True), service)
    assert recognise(headers(("X-API-Key", key))).caller == of_key(key)
    with pytest.raises(Unauthorized, match="Use an API key"):
        recognise(headers(("Authorization", f"Bearer {token}")))
    with pytest.raises(Unauthorized):
        recognise(headers())


def test_insecure_opens_nothing_that_has_auth(service):
    assert recogniser(Settings(), service, insecure=True) is anybody
    assert recogniser(Settings(), service) is on_loopback
    closed = recogniser(Settings(auth_secret=SECRET), service, insecure=True)
    with pytest.raises(Unauthorized):
        closed(headers(("Host", "127.0.0.1")))


# -- without auth


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8060",
        "localhost",
        "LOCALHOST:80",
        "localhost.",
        "[::1]",
        "[::1]:8060",
        "127.9.9.9",
    ],
)
def test_without_auth_this_host_is_answered(host):
    assert on_loopback(headers(("Host", host))).caller == ANONYMOUS
    assert on_loopback(headers(("Host", host), ("Origin", f"http://{host}"))).caller == ANONYMOUS


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8060",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "10.0.0.1",
        "0.0.0.0",
        "[::]",
        "::1",
        "[::1",
        "2130706433",
        "127.1",
        "localhost:8060:1",
        "",
        " ",
        "localhost, evil.example",
    ],
)
def test_without_auth_other_names_of_this_host_are_refused(host):
    """DNS rebinding: the name of another site resolves to this host."""
    with pytest.raises(Forbidden):
        on_loopback(headers(("Host", host)))


@pytest.mark.parametrize("pairs", [(), (("Host", "localhost"), ("Host", "evil.example"))])
def test_without_auth_there_must_be_one_host(pairs):
    with pytest.raises(Forbidden):
        on_loopback(headers(*pairs))


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "",
        "file://",
        "http://localhost.evil.example",
        "http://localhost@evil.example",
        "http://localhost",
        "http://localhost:3000",
        "http://localhost:80601",
        "http://127.0.0.1:8060",
        "https://localhost:8060",
        "http://localhost:8060/",
    ],
)
def test_without_auth_pages_from_elsewhere_are_refused(origin):
    with pytest.raises(Forbidden, match="of other sites"):
        on_loopback(headers(("Host", "localhost:8060"), ("Origin", origin)))


OURS = ("Origin", "http://localhost:8060")
LINK = (("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document"))


@pytest.mark.parametrize(
    "pairs",
    [
        [("Sec-Fetch-Site", "cross-site")],
        [("Sec-Fetch-Site", "same-site")],
        [("Sec-Fetch-Site", "same-site"), OURS],
        [("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "cross-site")],
        [("Sec-Fetch-Site", "cross-site"), *LINK, ("Origin", "null")],
        [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "iframe")],
        [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors"), ("Sec-Fetch-Dest", "document")],
        [("Sec-Fetch-Site", "cross-site"), *LINK, ("Content-Type", "text/plain"), ("Content-Length", "2")],
        [("Sec-Fetch-Site", "cross-site"), *LINK, ("Content-Length", "0")],
        [OURS, OURS],
        [("Origin", "https://localhost:8060"), ("X-Forwarded-Proto", "http")],
    ],
)
def test_without_auth_a_browser_that_says_it_comes_from_elsewhere_is_refused(pairs):
    with pytest.raises(Forbidden, match="of other sites"):
        on_loopback(headers(("Host", "localhost:8060"), *pairs))


@pytest.mark.parametrize(
    "pairs",
    [
        [("Sec-Fetch-Site", "none")],
        [("Sec-Fetch-Site", "same-origin"), OURS],
        [("Sec-Fetch-Site", "cross-site"), *LINK],  # a link on another page
        [("Origin", "https://localhost:8060"), ("X-Forwarded-Proto", "https")],
        [("Origin", "https://localhost:8060"), ("Sec-Fetch-Site", "same-origin")],
    ],
)
def test_without_auth_pages_of_ours_and_links_are_answered(pairs):
    assert on_loopback(headers(("Host", "localhost:8060"), *pairs)).caller == ANONYMOUS


@pytest.mark.parametrize(
    ("host", "settings", "insecure", "good"),
    [
        ("127.0.0.1", {}, False, True),
        ("::1", {}, False, True),
        ("localhost", {}, False, True),
        ("0.0.0.0", {}, False, False),
        ("::", {}, False, False),
        ("192.0.2.1", {}, False, False),
        ("example.org", {}, False, False),
        ("", {}, False, False),
        ("0.0.0.0", {}, True, True),
        ("0.0.0.0", {"auth_secret": SECRET}, False, True),
        ("0.0.0.0", {"auth_required": True}, False, True),
    ],
)
def test_without_auth_a_server_listens_on_loopback_unless_told(host, settings, insecure, good):
    if good:
        require_safe_binding(host, Settings(**settings), insecure=insecure)
    else:
        with pytest.raises(InvalidSetting, match="--insecure"):
            require_safe_binding(host, Settings(**settings), insecure=insecure)
