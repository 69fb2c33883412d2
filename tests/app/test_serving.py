"""Where HTTP listens."""

import socket

import pytest

from ostinato.app.serving import Listening
from ostinato.config import Settings
from ostinato.core.errors import InvalidSetting


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_nothing_of_an_answer_waits_for_the_client_to_say_that_it_has_the_rest(host):
    """An accepted connection is as its listener is. Without it each answer on a kept connection came 40 ms late."""
    with Listening(host, 0).bind(Settings()) as bound, socket.create_connection(bound.getsockname()[:2]):
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_an_address_in_use_is_one_sentence():
    with Listening(port=0).bind(Settings()) as bound:
        taken = Listening(port=bound.getsockname()[1])
        with pytest.raises(
            InvalidSetting, match=r"cannot listen on 127\.0\.0\.1:\d+: Address already in use\. Choose"
        ):
            taken.bind(Settings())


def test_a_port_out_of_range_is_one_sentence():
    with pytest.raises(InvalidSetting, match="a port is a number from 0 to 65535"):
        Listening(port=70000).bind(Settings())
