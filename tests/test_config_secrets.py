"""Passwords and secrets in settings: read, and never shown."""

import os
import re

import pytest

from ostinato.config import BY_NAME, Secret, masked
from ostinato.core.errors import Invalid
from tests.loading import SECRET, load, refusal


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///ostinato.db", "sqlite:///ostinato.db"),
        ("sqlite:////srv/a@b/ostinato.db", "sqlite:////srv/a@b/ostinato.db"),
        ("postgresql://db.example.org:5432/jobs", "postgresql://db.example.org:5432/jobs"),
        ("postgresql://ann@db.example.org:5432/jobs", "postgresql://ann@db.example.org:5432/jobs"),
        (SECRET, "postgresql://ann:***@db.example.org:5432/jobs"),
        ("postgresql://:s3cret@db/jobs", "postgresql://:***@db/jobs"),
        ("postgresql://ann:s3c@ret/@db/jobs", "postgresql://ann:***@db/jobs"),
        ("postgresql://ann@corp:s3cret@db/jobs", "postgresql://ann@corp:***@db/jobs"),
        ("postgresql:///jobs?user=ann&password=s3cret&x=1", "postgresql:///jobs?user=ann&password=***&x=1"),
        ("ann:s3cret@db/jobs", "ann:***@db/jobs"),
        ("host=db password=s3cret user=ann", "host=db password=*** user=ann"),
    ],
)
def test_passwords_are_masked(url, shown):
    assert masked(url) == shown


def test_a_password_is_neither_shown_nor_printed(tmp_path):
    settings = load(tmp_path, environ={"OSTINATO_DATABASE_URL": SECRET})
    assert settings.database_url == SECRET
    assert "s3cret" not in f"{settings} {settings!r} {settings.shown()} {settings.origins}"


def test_a_password_does_not_come_back_in_a_refusal(tmp_path):
    assert "s3cret" not in refusal(tmp_path, environ={"OSTINATO_DATABASE_URL": "mysql://ann:s3cret@db/jobs"})


# -- secrets

TOKEN_SECRET = "correct horse battery staple, and more"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("auth_secret", TOKEN_SECRET),
        ("auth_public_key", "-----BEGIN PUBLIC KEY-----\nMCowBQ"),
        ("heartbeat_url", "https://monitor.example.org/ping/0b1c"),
    ],
)
def test_a_secret_is_in_nothing_that_can_be_seen(tmp_path, name, value):
    settings = load(tmp_path, arguments={name: value})
    assert getattr(settings, name).reveal() == value
    assert settings.shown()[name] == "***"
    seen = f"{settings!r} {settings} {getattr(settings, name)} {getattr(settings, name)!r}"
    assert value not in seen


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("auth_secret", "too short, but a secret"),
        ("auth_public_key", "MIIEpAIBAAKCAQEA"),
        ("heartbeat_url", "ftp://monitor.example.org/0b1c"),
        ("heartbeat_url", "https://ann:0b1c@monitor.example.org/"),
    ],
)
def test_a_secret_that_is_refused_is_not_told(tmp_path, name, value):
    sentence = refusal(tmp_path, environ={BY_NAME[name].env: value})
    assert value not in sentence
    assert sentence.startswith(f"{name} has an invalid value ({BY_NAME[name].env}).")
    assert BY_NAME[name].kind.allowed in sentence


def test_a_secret_may_stand_elsewhere(tmp_path):
    file = tmp_path / "secret"
    file.write_text(f"{TOKEN_SECRET}\n")
    by_file, by_env = Secret(f"file:{file}"), Secret("env:TOKEN")
    assert by_file.reveal() == by_env.reveal({"TOKEN": TOKEN_SECRET}) == TOKEN_SECRET
    settings = load(tmp_path, environ={"OSTINATO_AUTH_SECRET": f"file:{file}"})
    assert settings.shown()["auth_secret"] == f"file:{file}"
    assert settings.auth_secret.reveal() == TOKEN_SECRET


def test_a_reference_that_leads_nowhere_says_so(tmp_path):
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "long").write_text("x" * 65_537)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    os.mkfifo(tmp_path / "pipe")
    wrong = [
        "env:NOWHERE",
        *(f"file:{tmp_path}/{name}" for name in ("none", "empty", "long", "binary", "pipe")),
    ]
    for reference in [*wrong, f"file:{tmp_path}"]:
        with pytest.raises(Invalid, match=re.escape(reference)):
            Secret(reference).reveal({})


def test_one_kind_of_token_only(tmp_path):
    key = "-----BEGIN PUBLIC KEY-----\n"
    both = {"OSTINATO_AUTH_SECRET": TOKEN_SECRET, "OSTINATO_AUTH_PUBLIC_KEY": key}
    assert "exclude each other" in refusal(tmp_path, environ=both)


def test_rq_as_the_engine_needs_a_redis_whose_password_is_not_shown(tmp_path):
    assert "redis_url" in refusal(tmp_path, environ={"OSTINATO_ENGINE": "rq"})
    rq = {"OSTINATO_ENGINE": "rq", "OSTINATO_REDIS_URL": "redis://:s3cret@localhost:6379/1"}
    settings = load(tmp_path, environ=rq)
    assert settings.redis_url.reveal() == "redis://:s3cret@localhost:6379/1"
    assert "s3cret" not in repr(settings)
    assert "s3cret" not in refusal(tmp_path, environ={"OSTINATO_REDIS_URL": "s3cret at localhost"})
