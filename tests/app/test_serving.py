"""The address of the HTTP server."""

import socket

import pytest

from ostinato import Ostinato
from ostinato.app.listening import AppReference, Listening
from ostinato.config import Settings
from ostinato.core.errors import InvalidSetting
from ostinato.program import serve_app


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_nothing_of_an_answer_waits_for_the_client_to_say_that_it_has_the_rest(host):
    """Accepted connections inherit TCP_NODELAY. Without it, each answer on a kept-alive connection was 40 ms late."""
    with Listening(host, 0).bind(Settings()) as bound, socket.create_connection(bound.getsockname()[:2]):
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_an_address_in_use_is_one_sentence():
    with Listening(port=0).bind(Settings()) as bound:
        taken = Listening(port=bound.getsockname()[1])
        with pytest.raises(InvalidSetting, match=r"cannot listen on 127\.0\.0\.1:\d+: Address already in use\. Choose"):
            taken.bind(Settings())


def test_a_port_out_of_range_is_one_sentence():
    with pytest.raises(InvalidSetting, match="a port is a number from 0 to 65535"):
        Listening(port=70000).bind(Settings())


@pytest.mark.parametrize(
    ("chosen", "apart"),
    [
        ({}, True),
        ({"http_process": False}, False),
        ({"engine": "rq", "redis_url": "redis://localhost"}, False),
    ],
    ids=["default", "off", "rq"],
)
def test_serve_gives_http_a_process_of_its_own_unless_that_is_off_or_rq_runs_the_jobs(monkeypatch, chosen, apart):
    asked: list[Listening] = []
    monkeypatch.setattr(Ostinato, "run", lambda _, **how: asked.append(how["listening"]))
    serve_app(None, chosen, Listening(), worker=True, migrate=False)
    assert [each.apart for each in asked] == [AppReference(None, chosen) if apart else None]


def test_a_reference_is_read_back_exactly():
    reference = AppReference("shop:app", {"database_url": "sqlite:///x.db", "concurrency": 3, "queues": None})
    assert AppReference.from_json(reference.to_json()) == reference
