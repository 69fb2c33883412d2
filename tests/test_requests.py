"""Requests with streamed answers, redirects and credentials, with a real server that misbehaves."""

import asyncio
import gzip

import pytest

from ostinato.config import Grants
from ostinato.core.addresses import PUBLIC_ONLY
from ostinato.core.auth import Basic, Bearer, ClientCredentials, InHeader, InQuery
from ostinato.core.errors import BadAnswer, Invalid, NotAllowed
from ostinato.outgoing import Credentials
from tests.calls import fetch, names, outgoing, run
from tests.playground import answered, answered_json


def test_a_body_comes_in_parts_unpacked(playground):
    body = b"line of a large file\n" * 20_000
    packed = gzip.compress(body[:100_000]) + gzip.compress(body[100_000:])
    playground.route("/large", lambda _: answered(packed, content_encoding="gzip"))

    async def story():
        async with outgoing() as out, out.request("GET", playground.url("/large")) as reply:
            parts = [part async for part in reply.parts()]
            assert b"".join(parts) == body
            assert len(parts) > 1
            assert max(map(len, parts)) <= 65_536
            assert (reply.status, reply.unpacked, reply.hops) == (200, len(body), 1)
            assert reply.received < len(body) / 10

    run(story())


def test_parameters_and_headers_arrive(playground):
    async def story():
        async with outgoing() as out:
            url = playground.url("/echo?fixed=1")
            async with out.request("POST", url, params=[("q", "ä b&c")], headers={"X-Own": "yes"}, body=b"{}") as reply:
                told = await reply.json()
        assert told["target"] == "/echo?fixed=1&q=%C3%A4%20b%26c"
        assert told["headers"]["x-own"] == "yes"
        assert told["headers"]["user-agent"] == "Ostinato"
        assert told["body"] == "{}"

    run(story())


def test_hundreds_of_pages_come_over_one_connection(playground):
    async def story():
        async with outgoing() as out:
            for page in range(300):
                await fetch(out, playground.url(f"/ok?page={page}"))

    run(story())
    assert (len(playground.requests), playground.connections) == (300, 1)


def test_a_connection_that_was_closed_meanwhile_is_replaced(playground):
    async def story():
        async with outgoing() as out:
            for _ in range(20):
                assert await fetch(out, playground.url("/leave")) == b"bye"

    run(story())
    assert len(playground.requests) == 20


def test_read_gives_so_much_as_is_asked_for(playground):
    async def story():
        async with outgoing() as out, out.request("GET", playground.url("/html")) as reply:
            assert await reply.read(6) == b"<html>"
            assert await reply.read(6) == b"Please"
            assert await reply.read() == b" log in</html>"
            assert await reply.read(6) == b""

    run(story())


# -- redirects


def test_redirects_are_followed_and_counted(playground):
    async def story():
        async with (
            outgoing() as out,
            out.request("GET", playground.url("/redirect?to=/echo%3Fa%3D1")) as reply,
        ):
            assert (reply.hops, reply.url) == (2, playground.url("/echo?a=1"))
            assert (await reply.json())["target"] == "/echo?a=1"
        assert playground.connections == 1

    run(story())


def test_five_redirects_are_enough(playground):
    def count(request):
        number = int(request.query["n"])
        return answered(b"", 302, location=f"/count?n={number + 1}") if number < 5 else answered(b"there")

    playground.route("/count", count)

    async def story():
        async with outgoing() as out:
            assert await fetch(out, playground.url("/count?n=0")) == b"there"
            with pytest.raises(NotAllowed, match="redirects more than 5 times"):
                await fetch(out, playground.url("/loop"))

    run(story())
    assert len(playground.asked("/loop")) == 6


@pytest.fixture
def internet(monkeypatch):
    """Redirect connections to 8.8.8.8, a public address, to the playground."""
    import httpcore2

    connect = httpcore2.AnyIOBackend.connect_tcp

    async def connect_tcp(self, host, *given, **more):
        return await connect(self, "127.0.0.1" if host == "8.8.8.8" else host, *given, **more)

    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect_tcp)


@pytest.mark.parametrize(
    "to",
    [
        "http://127.0.0.1:{port}/ok",
        "http://localhost:{port}/ok",
        "http://[::ffff:127.0.0.1]:{port}/ok",
        "http://[64:ff9b::7f00:1]:{port}/ok",
        "http://0x7f000001:{port}/ok",
        "http://inner.example.org:{port}/ok",
        "http://169.254.169.254/latest/meta-data",
        "ftp://example.org/",
        "file:///etc/passwd",
        "http://[half",
    ],
)
def test_a_redirect_into_a_private_network_reaches_nothing(playground, monkeypatch, internet, to):
    async def story():
        loop = asyncio.get_running_loop()
        known = {
            "api.example.org": ["8.8.8.8"],
            "inner.example.org": ["10.0.0.1"],
            "0x7f000001": ["127.0.0.1"],
        }
        names(monkeypatch, loop, **known)
        playground.route("/to", lambda _: answered(b"", 302, location=to.format(port=playground.port)))
        async with outgoing(egress=PUBLIC_ONLY) as out:
            assert await fetch(out, playground.url("/ok", host="api.example.org")) == b"ok"
            with pytest.raises(NotAllowed):
                await fetch(out, playground.url("/to", host="api.example.org"))

    run(story())
    assert [request.path for request in playground.requests] == ["/ok", "/to"]


def test_a_name_that_comes_to_mean_a_private_address_is_not_called_again(playground, monkeypatch):
    """DNS rebinding: only the addresses at the time of the connection count."""

    async def story():
        async with outgoing(egress=PUBLIC_ONLY) as out:
            names(monkeypatch, asyncio.get_running_loop(), **{"api.example.org": ["127.0.0.1"]})
            with pytest.raises(NotAllowed, match="private network"):
                await fetch(out, playground.url(host="api.example.org"))
            names(monkeypatch, asyncio.get_running_loop(), **{"api.example.org": ["8.8.8.8", "127.0.0.1"]})
            with pytest.raises(NotAllowed, match="private network"):
                await fetch(out, playground.url(host="api.example.org"))

    run(story())
    assert playground.connections == 0


def test_secrets_do_not_go_to_another_host(playground, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")

    async def story():
        names(
            monkeypatch,
            asyncio.get_running_loop(),
            **{"other.example.org": ["127.0.0.1"], "127.0.0.1": ["127.0.0.1"]},
        )
        away = playground.url("/echo", host="other.example.org").replace(":", "%3A")
        async with outgoing() as out:
            for auth in (
                Bearer("env:SECRET_TOKEN"),
                InHeader("X-Key", "env:SECRET_TOKEN"),
                InQuery("key", "env:SECRET_TOKEN"),
            ):
                url = playground.url(f"/redirect?to={away}")
                given = {
                    "credentials": Credentials(auth),
                    "headers": {"Cookie": "s3cret", "Accept": "text/csv"},
                }
                async with out.request("GET", url, **given) as reply:
                    told = await reply.json()
                assert "s3cret" in str(playground.asked("/redirect")[-1])
                assert "s3cret" not in str(told)
                assert told["headers"]["accept"] == "text/csv"
                async with out.request("GET", playground.url("/redirect?to=/echo"), **given) as reply:
                    assert str(await reply.json()).count("s3cret") == 2  # a body is not masked

    run(story())


# -- credentials


def test_credentials_are_read_when_they_are_sent(playground, monkeypatch, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("first\n")
    given = Credentials(Bearer(f"file:{secret}"))
    granted = Grants(("env:SECRET_*", f"file:{tmp_path}/*"))

    async def story():
        async with outgoing(grants=granted) as out:
            await fetch(out, playground.url("/ok"), credentials=given)
            secret.write_text("second\n")
            await fetch(out, playground.url("/ok"), credentials=given)
            monkeypatch.setenv("SECRET_WORD", "pässword")
            await fetch(out, playground.url("/ok"), credentials=Credentials(Basic("ann", "env:SECRET_WORD")))
            monkeypatch.setenv("SECRET_KEY", "a/b c")
            await fetch(out, playground.url("/ok?x=1"), credentials=Credentials(InQuery("key", "env:SECRET_KEY")))
            with pytest.raises(Invalid, match="no secret at env:SECRET_NOWHERE"):
                await fetch(out, playground.url("/ok"), credentials=Credentials(Bearer("env:SECRET_NOWHERE")))
            monkeypatch.setenv("SECRET_TWO_LINES", "s3cret\nX-Evil: 1")
            with pytest.raises(Invalid, match="env:SECRET_TWO_LINES cannot be sent in a header") as caught:
                await fetch(out, playground.url("/ok"), credentials=Credentials(Bearer("env:SECRET_TWO_LINES")))
            assert "s3cret" not in str(caught.value)

    run(story())
    sent = [request.headers.get("authorization") for request in playground.requests]
    assert sent == ["Bearer first", "Bearer second", "Basic YW5uOnDDpHNzd29yZA==", None]
    assert playground.requests[3].target == "/ok?x=1&key=a%2Fb%20c"


def test_a_token_is_asked_for_once_a_run_and_again_when_it_is_refused(playground, monkeypatch):
    monkeypatch.setenv("SECRET_CLIENT_SECRET", "s3cret")
    good = {"token": "t1"}
    playground.route("/token", lambda _: answered_json({"access_token": good["token"], "expires_in": 3600}))
    playground.route(
        "/data",
        lambda r: answered(b"data") if r.headers["authorization"] == f"Bearer {good['token']}" else answered(b"", 401),
    )

    async def story():
        given = Credentials(ClientCredentials(playground.url("/token"), "me", "env:SECRET_CLIENT_SECRET", "read write"))
        async with outgoing() as out:
            for _ in range(3):
                assert await fetch(out, playground.url("/data"), credentials=given) == b"data"
            assert len(playground.asked("/token")) == 1
            good["token"] = "t2"
            assert await fetch(out, playground.url("/data"), credentials=given) == b"data"

    run(story())
    first, second = playground.asked("/token")
    assert first.headers["authorization"] == "Basic bWU6czNjcmV0"
    assert first.body == second.body == b"grant_type=client_credentials&scope=read%20write"


def test_no_secret_is_shown_anywhere(playground, monkeypatch, caplog):
    """Neither errors nor debug logs show them, even if the server repeats them."""
    caplog.set_level("DEBUG")
    monkeypatch.setenv("SECRET_TOKEN", "s3cret-token")
    playground.route("/parrot", lambda r: answered((r.target + str(r.headers)).encode(), 400))
    playground.route("/bad-token", lambda r: answered(str(r.headers).encode(), 401))
    shown = []

    async def story():
        async with outgoing() as out:
            for auth in (
                Bearer("env:SECRET_TOKEN"),
                InHeader("X-Key", "env:SECRET_TOKEN"),
                InQuery("key", "env:SECRET_TOKEN"),
                Basic("ann", "env:SECRET_TOKEN"),
                ClientCredentials(playground.url("/bad-token"), "me", "env:SECRET_TOKEN"),
            ):
                with pytest.raises(BadAnswer) as caught:
                    async with out.request("GET", playground.url("/parrot"), credentials=Credentials(auth)) as reply:
                        await reply.require_good()
                shown.append(f"{caught.value} {caught.value.excerpt}")

    run(story())
    sent = str(playground.requests)
    assert "s3cret-token" in sent
    for text in (*shown, caplog.text):
        for secret in ("s3cret", "YW5uOnMzY3JldC10b2tlbg", "bWU6czNjcmV0"):
            assert secret not in text
    assert all("***" in text for text in shown)


@pytest.mark.parametrize("name", ["Transfer-Encoding", "content-length", "TE", "Trailer", "HOST"])
def test_a_request_has_one_length_and_nothing_goes_out_with_two(playground, name):
    async def story():
        async with outgoing() as out:
            for body in (b"", b"0\r\n\r\nGET /stolen HTTP/1.1\r\n\r\n"):
                with pytest.raises(Invalid, match=f"The header {name} cannot be set"):
                    await fetch(out, playground.url("/ok"), "POST", headers={name: "chunked"}, body=body)

    run(story())
    assert playground.requests == []
