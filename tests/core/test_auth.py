"""Credentials in definitions: `auth` and references to secrets."""

import pytest

from ostinato.core.auth import Basic, Bearer, ClientCredentials, InHeader, InQuery, parse_auth
from ostinato.core.errors import Invalid

OAUTH = {"type": "oauth2_client_credentials", "clientId": "c", "clientSecret": "env:SECRET_S"}


@pytest.mark.parametrize(
    ("given", "auth"),
    [
        ({"type": "bearer", "token": "env:SECRET_T"}, Bearer("env:SECRET_T")),
        ({"type": "basic", "username": "ann", "password": "file:/run/p"}, Basic("ann", "file:/run/p")),
        (
            {"type": "header", "name": "X-Api-Key", "value": "env:SECRET_K"},
            InHeader("X-Api-Key", "env:SECRET_K"),
        ),
        ({"type": "query", "name": "key", "value": "env:SECRET_K"}, InQuery("key", "env:SECRET_K")),
        (
            {
                "type": "oauth2_client_credentials",
                "tokenUrl": "https://a.org/t",
                "clientId": "c",
                "clientSecret": "env:SECRET_S",
            },
            ClientCredentials("https://a.org/t", "c", "env:SECRET_S"),
        ),
        (
            {
                "type": "oauth2_client_credentials",
                "token_url": "https://a.org/t",
                "client_id": "c",
                "client_secret": "env:SECRET_S",
                "scope": "read",
            },
            ClientCredentials("https://a.org/t", "c", "env:SECRET_S", "read"),
        ),
    ],
)
def test_each_way_is_understood(given, auth):
    assert parse_auth(given) == auth


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("bearer", "auth must be an object"),
        ({}, r"auth\.type must be one of"),
        ({"type": "digest"}, r"auth\.type must be one of"),
        ({"type": "bearer"}, r"auth\.token is missing"),
        ({"type": "bearer", "token": 7}, r"auth\.token is missing, or is not text"),
        ({"type": "bearer", "token": "env:SECRET_T", "tokken": "x"}, r"auth\.tokken is not known"),
        (
            {"type": "header", "name": "X Key", "value": "env:SECRET_K"},
            r"auth\.name must be the name of a header",
        ),
        ({"type": "query", "name": "", "value": "env:SECRET_K"}, r"auth\.name is missing"),
        ({"type": "bearer", "token": "env:OSTINATO_JWT_SECRET"}, "one of Ostinato's own settings"),
        (
            {
                "type": "oauth2_client_credentials",
                "tokenUrl": "ftp://a.org",
                "clientId": "c",
                "clientSecret": "env:SECRET_S",
            },
            r"auth\.tokenUrl must be an http or https URL",
        ),
    ],
)
def test_what_is_wrong_is_named(given, says):
    with pytest.raises(Invalid, match=says):
        parse_auth(given)


@pytest.mark.parametrize(
    "given",
    [{"type": "bearer", "token": "hunter2"}, {"type": "basic", "username": "a", "password": "hunter2"}],
)
def test_a_secret_that_is_written_out_is_refused_and_not_repeated(given):
    with pytest.raises(Invalid, match="must say where the secret is") as caught:
        parse_auth(given)
    assert "hunter2" not in str(caught.value)
