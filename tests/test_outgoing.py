"""Requests to other hosts: they reach only allowed addresses."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from ostinato.core.addresses import PUBLIC_ONLY
from ostinato.core.errors import Unreachable
from ostinato.outgoing import CallAnswer
from tests.calls import names, outgoing, run

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
REDIRECT = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"


class Server:
    """A server that gives every request the same bytes, and records requests."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.asked, self.port = answer, list[bytes](), 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")),
                0,
            )
            self.asked.append(head + await reader.readexactly(length))
            writer.write(self.answer)
            await writer.drain()
            if self.answer == b"":
                await reader.read()  # until the caller closes the connection
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def serving(answer: bytes = OK, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(answer)
    listening = await asyncio.start_server(server, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


def test_a_call_arrives_as_it_was_sent_and_its_answer_comes_back():
    async def story():
        async with serving() as server, outgoing() as out:
            url = f"http://127.0.0.1:{server.port}/hook?a=b"
            answer = await out.call("POST", url, headers={"X-Own": "1"}, body=b'{"a": 1}', most=100)
            assert answer == CallAnswer(200, b"hello")
            assert server.asked[0].startswith(b"POST /hook?a=b HTTP/1.1\r\n")
            assert b"X-Own: 1\r\n" in server.asked[0]
            assert server.asked[0].endswith(b'\r\n\r\n{"a": 1}')

    run(story())


def test_no_url_is_logged(caplog):
    caplog.set_level("DEBUG")

    async def story():
        async with serving() as server, outgoing() as out:
            await out.call("POST", f"http://127.0.0.1:{server.port}/T0/S3CRET?key=s3cret", headers={"X-Key": "s3cret"})
            assert len(server.asked) == 1

    run(story())
    assert "s3cret" not in caplog.text.lower()


def test_private_addresses_are_not_called_without_leave(monkeypatch):
    async def story():
        loop = asyncio.get_running_loop()
        names(
            monkeypatch,
            loop,
            **{"hooks.example.org": ["127.0.0.1"], "two.example.org": ["8.8.8.8", "10.0.0.1"]},
        )
        async with serving() as server, outgoing(egress=PUBLIC_ONLY) as out:
            for host in ("127.0.0.1", "localhost", "hooks.example.org", "two.example.org"):
                with pytest.raises(Unreachable, match="private network"):
                    await out.call("GET", f"http://{host}:{server.port}/")
            assert server.asked == []

    run(story())


def test_spellings_of_an_address_are_seen_through():
    async def story():
        async with serving() as server, outgoing(egress=PUBLIC_ONLY) as out:
            for host in ("2130706433", "0x7f000001", "0177.0.0.1", "127.1"):
                with pytest.raises(Unreachable):
                    await out.call("GET", f"http://{host}:{server.port}/")
            assert server.asked == []

    run(story())


def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch):
    async def story():
        asked = names(monkeypatch, asyncio.get_running_loop(), **{"hooks.example.org": ["127.0.0.1"]})
        async with serving() as server, outgoing() as out:
            await out.call("GET", f"http://hooks.example.org:{server.port}/")
            assert f"Host: hooks.example.org:{server.port}".encode() in server.asked[0]
            assert asked == ["hooks.example.org"]  # only once: a second answer could differ

    run(story())


def test_another_address_of_a_name_is_tried(monkeypatch):
    async def story():
        names(monkeypatch, asyncio.get_running_loop(), **{"hooks.example.org": ["127.0.0.9", "127.0.0.1"]})
        async with serving() as server, outgoing() as out:
            assert (await out.call("GET", f"http://hooks.example.org:{server.port}/")).good

    run(story())


def test_a_redirect_is_an_answer():
    async def story():
        async with serving(REDIRECT) as server, outgoing() as out:
            answer = await out.call("GET", f"http://127.0.0.1:{server.port}/")
            assert (answer.status, answer.good) == (302, False)
            assert len(server.asked) == 1

    run(story())


def test_what_is_read_has_a_bound():
    async def story():
        endless = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000_000
        async with serving(endless) as server, outgoing() as out:
            assert await out.call("GET", f"http://127.0.0.1:{server.port}/", most=10) == CallAnswer(200, b"x" * 10)
            assert await out.call("GET", f"http://127.0.0.1:{server.port}/") == CallAnswer(200, b"")

    run(story())


def test_whoever_does_not_answer_is_not_waited_for():
    async def story():
        async with serving(b"") as server, outgoing() as out:
            with pytest.raises(Unreachable, match=r"no answer within 0\.2 s"):
                await out.call("GET", f"http://127.0.0.1:{server.port}/", seconds=0.2)

    run(story())


@pytest.mark.parametrize("answer", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", b"HTTP/1.1 "])
def test_an_answer_that_makes_no_sense_is_none(answer):
    async def story():
        async with serving(answer) as server, outgoing() as out:
            with pytest.raises(Unreachable):
                await out.call("GET", f"http://127.0.0.1:{server.port}/", most=10)

    run(story())


def test_nobody_there_is_one_sentence(monkeypatch):
    async def story():
        async with serving() as server, outgoing() as out:
            port = server.port
        names(monkeypatch, asyncio.get_running_loop())
        async with outgoing() as out:
            for url in (
                "http://nowhere.example.org/",
                f"http://{'a' * 64}.example.org/",
                "ftp://example.org",
                "http://",
            ):
                with pytest.raises(Unreachable):
                    await out.call("GET", url)
        monkeypatch.undo()
        async with outgoing() as out:
            with pytest.raises(Unreachable, match="No server answers at 127"):
                await out.call("GET", f"http://127.0.0.1:{port}/")

    run(story())


def test_no_proxy_of_the_environment_is_asked(monkeypatch):
    async def story():
        async with serving() as proxy, serving() as server, outgoing() as out:
            for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
            await out.call("GET", f"http://127.0.0.1:{server.port}/")
            assert (len(proxy.asked), len(server.asked)) == (0, 1)

    run(story())


# -- TLS


@pytest.fixture
def authority(tmp_path):
    """A certificate for hooks.example.org, and a context that trusts it."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hooks.example.org")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("hooks.example.org")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "server.pem"
    file.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)
    )
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cafile=file)


def test_tls_checks_the_name_though_the_connection_goes_to_an_address(monkeypatch, authority):
    theirs, ours = authority

    async def story():
        loop = asyncio.get_running_loop()
        names(monkeypatch, loop, **{"hooks.example.org": ["127.0.0.1"], "evil.example.org": ["127.0.0.1"]})
        async with serving(tls=theirs) as server, outgoing(verify=ours) as out:
            assert (await out.call("GET", f"https://hooks.example.org:{server.port}/")).good
            for host in ("evil.example.org", "127.0.0.1"):
                with pytest.raises(Unreachable):
                    await out.call("GET", f"https://{host}:{server.port}/")
            assert len(server.asked) == 1

    run(story())


def test_a_certificate_that_nobody_trusts_is_refused(monkeypatch, authority):
    theirs, _ = authority

    async def story():
        names(monkeypatch, asyncio.get_running_loop(), **{"hooks.example.org": ["127.0.0.1"]})
        async with serving(tls=theirs) as server, outgoing() as out:
            with pytest.raises(Unreachable):
                await out.call("GET", f"https://hooks.example.org:{server.port}/")

    run(story())
