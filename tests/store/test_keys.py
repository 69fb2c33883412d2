"""API keys: created, shown once, verified, revoked; on both databases."""

import json
from datetime import timedelta

import pytest

from ostinato.clock import ManualClock
from ostinato.core.access import Caller, Role
from ostinato.core.errors import Invalid, NotFound, Unauthorized
from ostinato.service.access import KeyService, admission_of
from tests.build import DAY, HOUR, NOW, SECOND


@pytest.fixture
def clock():
    return ManualClock(NOW)


@pytest.fixture
def service(world, clock):
    return KeyService(world.store, clock, world.chance)


def test_who_has_a_key_is_recognised(service):
    made = service.create("ci", Role.OPERATOR, by="ann")
    admitted = admission_of(service.find(made.text))
    assert admitted.caller == Caller(f"key:ci~{made.row.prefix[4:8]}", Role.OPERATOR)
    assert made.text.startswith(made.row.prefix + ".")


def test_a_key_works_in_every_process_at_once(service, world, clock):
    other = KeyService(world.another(), clock, world.chance)
    made = service.create("ci", Role.VIEWER)
    assert other.find(made.text).role is Role.VIEWER
    service.revoke(made.row.id)
    with pytest.raises(Unauthorized, match="revoked"):
        other.find(made.text)


def test_what_is_not_a_key_is_refused_in_one_sentence(service):
    one, two = service.create("one", Role.ADMIN), service.create("two", Role.ADMIN)
    prefix, secret = one.text.split(".")
    for text in (
        "",
        ".",
        prefix,
        f"{prefix}.",
        f".{secret}",
        f"{prefix}.{'A' * 43}",
        f"{two.row.prefix}.{secret}",
        one.text + " ",
        one.text + "\n",
        one.text[:-1],
        one.text.upper(),
        "ost_aaaaaaaaaa." + secret,
        "é" * 50,
        "\0",
        "\ud800",
        one.text * 1000,
    ):
        with pytest.raises(Unauthorized) as refused:
            service.find(text)
        assert str(refused.value) == "The API key is invalid."


def test_a_key_expires(service, clock):
    made = service.create("ci", Role.ADMIN, HOUR)
    clock.advance(HOUR - SECOND)
    assert service.find(made.text).role is Role.ADMIN
    clock.advance(SECOND)
    with pytest.raises(Unauthorized, match="expired"):
        service.find(made.text)


def test_the_key_itself_is_kept_and_shown_nowhere(service, world):
    made = service.create("ci", Role.ADMIN, by="ann")
    service.revoke(made.row.id, by="bob")
    secret = made.text.split(".")[1]
    everything = world.sql("SELECT prefix, hash, name, role, created_by, revoked_by FROM {api_keys}")
    everything += world.sql("SELECT kind, data, by FROM {events}")
    shown = f"{everything} {made!r} {made} {service.list()!r}"
    assert secret not in shown
    assert made.row.hash not in repr(service.list())


def test_who_made_and_revoked_a_key_is_told(service, world):
    made = service.create("ci", Role.ADMIN, by="ann")
    service.revoke(made.row.id, by="bob")
    service.revoke(made.row.id, by="carl")  # it is already revoked
    (created,), (revoked,) = world.events("key.created"), world.events("key.revoked")
    about = {"key": str(made.row.id), "prefix": made.row.prefix, "name": "ci", "role": "admin"}
    assert (created.by, json.loads(created.data)) == ("ann", about)
    assert (revoked.by, json.loads(revoked.data)) == ("bob", about)
    (row,) = service.list()
    assert (row.revoked_by, row.revoked_at) == ("bob", NOW)


def test_the_newest_key_comes_first_and_pages_go_on(service, clock):
    names = []
    for n in range(5):
        names.append(service.create(f"key {n}", Role.VIEWER).row.name)
        clock.advance(SECOND)
    first = service.list(limit=2)
    rest = service.list(before=first[-1].id)
    assert [row.name for row in first + rest] == names[::-1]


def test_the_last_use_is_kept_to_the_minute(service, world, clock):
    made = service.create("ci", Role.VIEWER)
    writes = []
    note = world.store.keys.note_used
    world.store.keys.note_used = lambda *args: (writes.append(args), note(*args))
    for _ in range(120):
        service.find(made.text)
        clock.advance(SECOND)
    assert len(writes) == 2
    assert service.list()[0].last_used_at == NOW + timedelta(minutes=1)


def test_a_database_that_has_no_time_to_note_a_use_keeps_nobody_out(service, world):
    from ostinato.core.errors import StoreUnavailable

    made = service.create("ci", Role.VIEWER)

    def away(*_):
        raise StoreUnavailable("away")

    world.store.keys.note_used = away
    assert service.find(made.text).role is Role.VIEWER


@pytest.mark.parametrize(
    ("name", "expires_in"),
    [
        ("", None),
        (" ", None),
        ("a\nb", None),
        ("x" * 101, None),
        ("ci", timedelta(0)),
        ("ci", -DAY),
        ("ci", timedelta(days=36_526)),
        ("ci", timedelta.max),
    ],
)
def test_a_key_that_makes_no_sense_is_not_made(service, name, expires_in):
    with pytest.raises(Invalid):
        service.create(name, Role.VIEWER, expires_in)
    assert service.list() == []


def test_a_key_that_is_not_there_cannot_be_revoked(service, world):
    with pytest.raises(NotFound):
        service.revoke(world.chance.id(NOW))


# -- invalid keys


def wrong_key(n: int) -> str:
    return f"ost_{'abcdefghij'[n % 10] * 10}.{'A' * 43}"


def test_wrong_keys_lock_out_no_good_key(service):
    unused = service.create("rare", Role.VIEWER)
    for n in range(1000):
        with pytest.raises(Unauthorized):
            service.find(wrong_key(n))
    assert service.find(unused.text).role is Role.VIEWER
