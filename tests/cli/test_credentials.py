"""`ostinato token create` and `ostinato key …`, and what a server that asks for them says to the command line."""

import json
import os

import pytest

from tests.cli.places import Place, the_json

SECRET = "correct horse battery staple, and then some more"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server that asks for credentials."""
    folder = tmp_path_factory.mktemp("guarded")
    environment = {
        "OSTINATO_DATABASE_URL": f"sqlite:///{folder}/ostinato.db",
        "OSTINATO_AUTH_SECRET": SECRET,
    }
    place = Place(folder, "server", environment)
    yield place
    place.close()


@pytest.fixture
def secret(monkeypatch):
    monkeypatch.setenv("OSTINATO_AUTH_SECRET", SECRET)


def a_token(ostinato, *flags):
    answer = ostinato("token", "create", "ann", *flags)
    assert answer.code == 0
    return answer.out.strip()


def test_a_token_opens_the_door_as_far_as_its_role(ostinato, secret, guarded):
    viewer, admin = a_token(ostinato), a_token(ostinato, "--role", "admin", "--for", "1h")
    assert the_json(ostinato("job", "list", "--json", *guarded.flags, "--token", viewer))["total"] == 0
    refused = ostinato("job", "add", "fine", "--every", "1h", *guarded.flags, "--token", viewer)
    assert (refused.code, refused.out) == (1, "")
    assert "needs the role admin" in refused.err
    assert ostinato("job", "add", "fine", "--every", "1h", *guarded.flags, "--token", admin).code == 0


def test_the_token_of_the_environment(ostinato, secret, guarded, monkeypatch):
    monkeypatch.setenv("OSTINATO_TOKEN", a_token(ostinato))
    monkeypatch.setenv("OSTINATO_SERVER", guarded.server)
    assert ostinato("workers").code == 0


@pytest.mark.parametrize("token", [None, "nonsense", "a.b.c", "prefix.secret"])
def test_without_a_good_credential(ostinato, guarded, token):
    answer = ostinato("job", "list", *guarded.flags, *([] if token is None else ["--token", token]))
    assert (answer.code, answer.out) == (1, "")
    assert len(answer.err.splitlines()) == 1
    assert token is None or token not in answer.err


def test_a_token_that_cannot_stand_in_a_header(ostinato, guarded):
    answer = ostinato("job", "list", *guarded.flags, "--token", "bad\ntoken")
    assert (answer.code, answer.err) == (2, "--token can only have printable ASCII characters.\n")


def test_a_token_as_json(ostinato, secret):
    answer = the_json(ostinato("token", "create", "ann", "--role", "operator", "--json"))
    assert (answer["name"], answer["role"], answer["token"].count(".")) == ("ann", "operator", 2)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--for", "400d"], "The lifetime of a token is"),
        (["--for", "soon"], "'soon' is not a duration"),
        (["--role", "king"], "--role"),
    ],
)
def test_a_token_that_cannot_be(ostinato, secret, flags, sentence):
    answer = ostinato("token", "create", "ann", *flags)
    assert (answer.code, answer.out) == (2, "")
    assert sentence in answer.err


def test_without_a_secret_there_are_no_tokens(ostinato):
    answer = ostinato("token", "create", "ann")
    assert (answer.code, answer.out) == (2, "")
    assert "set OSTINATO_AUTH_SECRET" in answer.err


def test_a_key_is_made_used_listed_and_revoked(ostinato, secret, guarded, monkeypatch):
    monkeypatch.setenv("OSTINATO_DATABASE_URL", guarded.environment["OSTINATO_DATABASE_URL"])
    made = the_json(ostinato("key", "create", "ci", "--role", "operator", "--for", "30d", "--json"))
    with_key = (*guarded.flags, "--token", made["key"])
    assert ostinato("job", "list", *with_key).code == 0
    listed = ostinato("key", "list")
    assert made["id"] in listed.out
    assert made["key"] not in listed.out, "it is shown once"
    assert ostinato("key", "list", *with_key).code == 1, "not for operators"
    revoked = ostinato("key", "revoke", made["id"])
    assert revoked.out == f"The key ci ({made['id']}) is revoked.\n"
    assert ostinato("job", "list", *with_key).code == 1
    assert ostinato("key", "revoke", "01a1e564-5286-7e49-889e-389aa297e15a").code == 3


def test_a_key_for_people(ostinato, empty_sqlite_url):
    answer = ostinato("key", "create", "ci", "--database", empty_sqlite_url)
    assert answer.code == 0
    key = answer.out.splitlines()[-1]
    assert key.count(".") == 1
    assert "never" in answer.out


def test_no_secret_is_shown_anywhere(ostinato, secret):
    for command in (["config", "show", "--origin"], ["config", "show", "--json"]):
        assert SECRET not in ostinato(*command).out
    assert os.environ["OSTINATO_AUTH_SECRET"] == SECRET
    assert "auth_secret" in json.loads(ostinato("config", "show", "--json").out)


# -- ending access


def test_access_is_ended_at_a_server_each_way(ostinato, secret, guarded, monkeypatch):
    admin = (*guarded.flags, "--token", a_token(ostinato, "--role", "admin"))
    leaked = ostinato("token", "create", "eve", "--role", "admin").out.strip()
    as_eve = (*guarded.flags, "--token", leaked)
    assert ostinato("job", "list", *as_eve).code == 0
    ended = ostinato("access", "end", "--credential", leaked, *admin)
    assert ended.code == 0
    assert leaked not in ended.out
    refused = ostinato("job", "list", *as_eve)
    assert (refused.code, "was ended" in refused.err) == (1, True)
    bob = ostinato("token", "create", "bob").out.strip()
    assert the_json(ostinato("access", "end", "--name", "bob", "--json", *admin))["what"] == "name:bob"
    assert ostinato("job", "list", *guarded.flags, "--token", bob).code == 1
    key = the_json(ostinato("key", "create", "ci", "--json", *admin))
    assert "API keys revoked: 1" in ostinato("access", "end", "--key", key["id"], *admin).out
    assert ostinato("job", "list", *guarded.flags, "--token", key["key"]).code == 1


def test_all_access_is_ended_on_the_database(ostinato, secret, empty_sqlite_url):
    here = ("--database", empty_sqlite_url)
    for name in ("a", "b"):
        assert ostinato("key", "create", name, *here).code == 0
    ended = ostinato("access", "end", "--all", *here)
    assert ended.out.startswith("Access ended: all. API keys revoked: 2. Sessions ended: 0.\n")
    assert "are refused; create new ones after that." in ended.out
    assert all(key["revoked_at"] for key in the_json(ostinato("key", "list", "--json", *here))["keys"])


def test_a_token_is_read_from_standard_input(ostinato, secret, empty_sqlite_url, monkeypatch):
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO(a_token(ostinato) + "\n"))
    answer = ostinato("access", "end", "--credential", "-", "--json", "--database", empty_sqlite_url)
    assert the_json(answer)["what"].startswith("token:")


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        ([], 2),
        (["--all", "--name", "ann"], 2),
        (["--key", "nonsense"], 2),
        (["--credential", "nonsense"], 3),
        (["--key", "01a1e564-5286-7e49-889e-389aa297e15a"], 3),
    ],
)
def test_an_ending_that_makes_no_sense(ostinato, empty_sqlite_url, flags, code):
    answer = ostinato("access", "end", *flags, "--database", empty_sqlite_url)
    assert (answer.code, answer.out) == (code, "")
    assert len(answer.err.splitlines()) == 1
