"""The end of access: sessions, tokens and keys, in each way; on both databases."""

import json
from datetime import timedelta
from threading import Thread
from uuid import uuid4

import pytest
from starlette.testclient import TestClient

from ostinato.access.credentials import ByCredential
from ostinato.access.sessions import Visitors
from ostinato.access.tokens import Tokens
from ostinato.clock import ManualClock
from ostinato.config import Settings
from ostinato.core.access import Caller, Role
from ostinato.core.errors import NotFound, Unauthorized
from ostinato.service import Service
from tests.build import DAY, HOUR, NOW, SECOND

SECRET, OTHER = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
LATER = 6 * SECOND  # tokens that are issued so soon after an ending are refused


class Door:
    """Access checks with a clock that a test advances."""

    def __init__(self, app, secret: str = SECRET, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock(NOW)
        self.service = Service(app.parts.store, self.clock, app.parts.chance)
        self.tokens = Tokens.of(Settings(auth_secret=secret))
        self.check = ByCredential(self.tokens, self.service)
        self.visitors = Visitors(self.check, self.service)

    def token(self, name: str = "ann", role: Role = Role.ADMIN) -> str:
        return self.tokens.issue(name, role, self.clock.now(), HOUR)

    def lets_in(self, credential: str) -> bool:
        return self._good(self.check.admit, credential)

    def knows(self, session: str) -> bool:
        return self._good(self.check.by_session, session)

    def _good(self, check, credential: str) -> bool:
        try:
            return bool(check(credential))
        except Unauthorized:
            return False

    def ended(self) -> list[dict]:
        return [json.loads(event.data) for event in self.service.events(None, ["access.ended"], 10)]


@pytest.fixture
def door(app) -> Door:
    return Door(app)


def test_an_admission_carries_the_id_of_its_credential(door):
    key = door.service.keys.create("deploy", Role.VIEWER)
    of_key = door.check.admit(key.text)
    assert (of_key.credential, of_key.key_id) == (f"key:{key.row.id}", key.row.id)
    assert of_key.caller == Caller(f"key:deploy~{key.row.prefix[4:8]}", Role.VIEWER)
    token = door.token()
    of_token = door.check.admit(token)
    assert of_token.credential.startswith("token:")
    assert len(of_token.credential) == len("token:") + 32
    assert (of_token.key_id, of_token.issued_at, of_token.signer) == (None, NOW, door.tokens.signer)
    for credential, admission in ((key.text, of_key), (token, of_token)):
        again = door.check.by_session(door.visitors.begin(credential))
        assert (again.caller, again.credential) == (admission.caller, admission.credential)


def test_one_token_ends_and_the_others_stay(door):
    token, other = door.token("ann"), door.token("bob")
    session, others = door.visitors.begin(token), door.visitors.begin(other)
    ended = door.service.access.end_token(door.check.admit(token).credential, NOW + HOUR, by="root")
    assert (ended.keys, ended.sessions) == (0, 1)
    assert not door.lets_in(token)
    assert not door.knows(session)
    assert door.lets_in(other)
    assert door.knows(others)


def test_an_ended_token_cannot_come_back_with_its_signature_written_otherwise(door):
    """The signature may have padding or not: two texts are one token."""
    token = door.token()
    spellings = [token, f"{token}="]
    assert all(door.lets_in(spelling) for spelling in spellings)
    door.service.access.end_token(door.check.admit(token).credential, NOW + HOUR)
    assert not any(door.lets_in(spelling) for spelling in spellings)


def test_a_name_ends_and_may_come_back_with_a_new_token(door):
    token, other = door.token("ann"), door.token("bob")
    session = door.visitors.begin(token)
    ended = door.service.access.end_name("ann", by="root")
    assert ended.sessions == 1
    assert not door.lets_in(token)
    assert not door.knows(session)
    assert door.lets_in(other)
    door.clock.advance(5 * SECOND)
    assert not door.lets_in(door.token("ann"))  # the clock of its issuer may be so much ahead
    door.clock.advance(SECOND)
    new = door.token("ann")
    assert door.lets_in(new)
    assert door.knows(door.visitors.begin(new))


def test_a_token_that_does_not_say_when_it_was_issued_counts_as_old(door):
    import jwt

    claims = {"sub": "ann", "role": "admin", "exp": int(NOW.timestamp()) + 3600}
    token = jwt.encode(claims, SECRET, "HS256")
    assert door.lets_in(token)
    door.service.access.end_name("ann")
    door.clock.advance(LATER)
    assert not door.lets_in(token)


def test_a_key_ends_with_its_sessions(door):
    key, other = door.service.keys.create("a", Role.ADMIN), door.service.keys.create("b", Role.ADMIN)
    session, others = door.visitors.begin(key.text), door.visitors.begin(other.text)
    ended = door.service.access.end_key(key.row.id, by="root")
    assert (ended.what, ended.keys, ended.sessions) == (f"key:{key.row.id}", 1, 1)
    assert not door.lets_in(key.text)
    assert not door.knows(session)
    assert door.lets_in(other.text)
    assert door.knows(others)
    assert door.service.access.end_key(key.row.id).keys == 0  # it had ended already
    with pytest.raises(NotFound):
        door.service.access.end_key(uuid4())


def test_everything_ends_at_once(door):
    keys = [door.service.keys.create(name, Role.ADMIN).text for name in "abc"]
    tokens = [door.token(name) for name in ("ann", "bob")]
    sessions = [door.visitors.begin(credential) for credential in (*keys, *tokens)]
    ended = door.service.access.end_all(by="root")
    assert (ended.what, ended.keys, ended.sessions) == ("all", 3, 5)
    assert not any(map(door.lets_in, (*keys, *tokens)))
    assert not any(map(door.knows, sessions))
    (told,) = door.ended()
    assert told == {"what": "all", "since": (NOW + 5 * SECOND).isoformat(), "keys": 3, "sessions": 5}
    door.clock.advance(LATER)
    assert door.lets_in(door.token("ann"))
    assert door.lets_in(door.service.keys.create("new", Role.VIEWER).text)


def test_a_session_that_is_begun_during_an_ending_is_judged_as_its_token(door):
    """The credential was checked before the end of access was committed; the session is written after it."""
    admission = door.check.admit(door.token())
    door.service.access.end_all()
    door.clock.advance(LATER)
    assert not door.knows(door.service.sessions.begin(admission))


def test_a_session_ends_when_the_secret_changes(app, door):
    session = door.visitors.begin(door.token())
    by_key = door.visitors.begin(door.service.keys.create("ci", Role.ADMIN).text)
    rotated = Door(app, OTHER, door.clock)
    assert door.knows(session)
    assert not rotated.knows(session)
    assert rotated.knows(by_key)  # a key has no signature
    no_tokens = ByCredential(None, door.service)
    with pytest.raises(Unauthorized):
        no_tokens.by_session(session)


def test_a_key_that_is_made_during_an_ending_is_revoked(door):
    """The request was admitted before the end of access, and its body came after it."""
    token = door.token()

    def end_then_check() -> None:
        door.service.access.end_all()
        door.check.admit(token)

    with pytest.raises(Unauthorized):
        door.service.keys.create("backdoor", Role.ADMIN, check=end_then_check)
    assert [bool(key.revoked_at) for key in door.service.keys.list()] == [True]


def test_an_ending_waits_for_keys_that_are_being_made(app, door):
    """On PostgreSQL a row that is not committed is not seen: the key would survive."""
    keys, row = app.parts.store.keys, door.service.keys.create("pattern", Role.ADMIN).row
    ending = Thread(target=door.service.access.end_all)
    with app.parts.store.database.write() as tx:
        tx.row("lock_to_make_a_key")
        tx.run(
            "insert_key", id=uuid4(), prefix="ost_backdoor", hash="0", name="backdoor", role="admin",
            now=NOW, by="eve", expires_at=None,
        )  # fmt: skip
        ending.start()
        ending.join(0.5)  # it waits, else it would have ended by now
    ending.join()
    assert keys.find(row.prefix).revoked_at
    assert keys.find("ost_backdoor").revoked_at


def test_endings_are_forgotten_when_no_token_can_match_them_any_more(app, door):
    token = door.token()
    door.service.access.end_token(door.check.admit(token).credential, NOW + HOUR)
    door.service.access.end_name("ann")

    def kept() -> set[str]:
        with app.parts.store.database.read() as tx:
            return {what for (what,) in tx.rows(barred)}

    barred = app.parts.store.database.dialect.statements("-- name: x\nSELECT what FROM {barred}")["x"]
    app.parts.store.access.forget(NOW + HOUR - SECOND)
    assert len(kept()) == 2
    app.parts.store.access.forget(NOW + HOUR)
    assert kept() == {"name:ann"}
    app.parts.store.access.forget(NOW + 367 * DAY)
    assert kept() == set()


def test_a_later_ending_of_the_same_name_moves_on_and_never_back(door):
    door.clock.advance(HOUR)
    door.service.access.end_name("ann")
    door.clock.advance(LATER)
    token = door.token("ann")
    assert door.lets_in(token)
    door.service.access.end_name("ann")
    assert not door.lets_in(token)
    door.clock.set(NOW)  # the clock of another process is behind
    door.service.access.end_name("ann")
    assert not door.lets_in(token)


# -- over HTTP


@pytest.fixture
def client(new_client) -> TestClient:
    return new_client(auth_secret=SECRET)


def bearer(credential: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential}"}


def a_token(client: TestClient, name: str, role: Role = Role.ADMIN) -> str:
    return Tokens.of(client.app.state.settings).issue(name, role, client.service.now(), timedelta(hours=1))


def end(client: TestClient, body: object, code: int = 200) -> dict:
    answer = client.post("/api/v1/access/end", headers=bearer(a_token(client, "root")), json=body)
    assert answer.status_code == code, answer.text
    return answer.json()


def test_access_is_ended_over_http_each_way(client):
    token, key = a_token(client, "ann"), client.service.keys.create("ci", Role.VIEWER)
    assert end(client, {"token": token})["what"].startswith("token:")
    refused = client.get("/api/v1/jobs", headers=bearer(token))
    assert (refused.status_code, "was ended" in refused.json()["detail"]) == (401, True)
    assert end(client, {"key": str(key.row.id)})["keys"] == 1
    assert client.get("/api/v1/jobs", headers=bearer(key.text)).status_code == 401
    bob = a_token(client, "bob")
    assert end(client, {"name": "bob"})["what"] == "name:bob"
    assert client.get("/api/v1/jobs", headers=bearer(bob)).status_code == 401
    root = a_token(client, "root")
    assert end(client, {"all": True})["what"] == "all"
    assert client.get("/api/v1/jobs", headers=bearer(root)).status_code == 401
    kinds = [event.kind for event in client.service.events(None, [], 20)]
    assert (kinds.count("access.ended"), kinds.count("key.revoked")) == (4, 1)


@pytest.mark.parametrize(
    ("body", "code", "why"),
    [
        ({}, 422, "Say which access to end"),
        ([], 422, "Say which access to end"),
        ({"everything": True}, 422, "Say which access to end"),
        ({"all": False}, 422, "all"),
        ({"all": True, "name": "ann"}, 422, "all"),
        ({"name": None}, 422, "name"),
        ({"token": ""}, 422, "token"),
        ({"key": "nonsense"}, 422, "key"),
        ({"key": str(uuid4())}, 404, "no key"),
        ({"token": "a.b.c"}, 404, "not a token"),
        ({"token": "ost_aaaaaaaaaa." + "A" * 43}, 404, "by its id"),
        ({"name": "key:ci~abcd"}, 404, "by its id"),
        ({"name": "a\nb"}, 404, "printable"),
    ],
)
def test_an_ending_that_makes_no_sense_is_refused(client, body, code, why):
    assert why in end(client, body, code)["detail"]
    assert client.service.events(None, ["access.ended"], 10) == []


def test_a_cookie_from_before_a_new_secret_makes_no_key(new_client):
    """The old cookie made an admin key."""
    before = new_client(auth_secret=SECRET)
    login = before.get("/login").text
    form_token = login.partition('name="form_token" value="')[2][:64]
    form = {"form_token": form_token, "credential": a_token(before, "ann")}
    assert before.post("/login", data=form, follow_redirects=False).status_code == 303
    assert before.get("/settings", follow_redirects=False).status_code == 200
    after = new_client(auth_secret=OTHER)
    after.cookies = before.cookies
    assert after.get("/api/v1/jobs").status_code == 401
    assert after.get("/settings", follow_redirects=False).headers["location"].startswith("/login")
    made = after.post(
        "/settings/keys",
        data={"form_token": form_token, "name": "x", "role": "admin"},
        follow_redirects=False,
    )
    assert made.status_code == 401
    assert after.service.keys.list() == []
