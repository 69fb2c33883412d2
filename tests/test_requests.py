"""Requests with answers that stream, redirects, bounds and credentials, against a real server that misbehaves."""

import asyncio
import gzip
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.auth import Basic, Bearer, ClientCredentials, InHeader, InQuery
from ostinato.core.errors import BadAnswer, Invalid, NotAllowed, TooMuch, Unreachable
from ostinato.core.pace import Asked
from ostinato.outgoing import Bounds, Credentials
from ostinato.outgoing.reply import parse_json
from tests.build import SECOND
from tests.playground import Playground, answered, answered_json
from tests.test_outgoing import names, outgoing, run

MIB = 1024 * 1024
HALF = "HTTP/1.1%20200%20OK%0D%0Acontent-length:%2010%0D%0A%0D%0Aabc"


@pytest.fixture
def playground():
    with Playground() as playground:
        yield playground


async def fetch(out, url: str, method: str = "GET", **given) -> bytes:
    async with out.request(method, url, **given) as reply:
        return await reply.read()


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
            async with out.request(
                "POST", url, params=[("q", "ä b&c")], headers={"X-Own": "yes"}, body=b"{}"
            ) as reply:
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
    """8.8.8.8 is a public address: who connects to it reaches the playground."""
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
        async with outgoing(allow_private=False) as out:
            assert await fetch(out, playground.url("/ok", host="api.example.org")) == b"ok"
            with pytest.raises(NotAllowed):
                await fetch(out, playground.url("/to", host="api.example.org"))

    run(story())
    assert [request.path for request in playground.requests] == ["/ok", "/to"]


def test_a_name_that_comes_to_mean_a_private_address_is_not_called_again(playground, monkeypatch):
    """DNS rebinding: what counts is what the name means when the connection is made."""

    async def story():
        async with outgoing(allow_private=False) as out:
            names(monkeypatch, asyncio.get_running_loop(), **{"api.example.org": ["127.0.0.1"]})
            with pytest.raises(NotAllowed, match="private network"):
                await fetch(out, playground.url(host="api.example.org"))
            names(monkeypatch, asyncio.get_running_loop(), **{"api.example.org": ["8.8.8.8", "127.0.0.1"]})
            with pytest.raises(NotAllowed, match="private network"):
                await fetch(out, playground.url(host="api.example.org"))

    run(story())
    assert playground.connections == 0


def test_secrets_do_not_go_to_another_host(playground, monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cret")

    async def story():
        names(
            monkeypatch,
            asyncio.get_running_loop(),
            **{"other.example.org": ["127.0.0.1"], "127.0.0.1": ["127.0.0.1"]},
        )
        away = playground.url("/echo", host="other.example.org").replace(":", "%3A")
        async with outgoing() as out:
            for auth in (Bearer("env:TOKEN"), InHeader("X-Key", "env:TOKEN"), InQuery("key", "env:TOKEN")):
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
                    assert str(await reply.json()).count("s3cret") == 2  # here they may stay

    run(story())


# -- bounds


@pytest.mark.parametrize("kind", ["gzip", "deflate", "br"])
def test_a_bomb_is_stopped_before_it_fills_the_memory(playground, kind):
    url = playground.url(f"/bomb?megabytes=100&kind={kind}")
    run(_told(url))  # the server makes it now, not while we measure

    async def story():
        async with outgoing() as out:
            with pytest.raises(TooMuch, match="unpacks to more than 1,048,576 bytes") as caught:
                await fetch(out, url, bounds=Bounds(unpacked=MIB))
            assert not caught.value.transient

    bomb = playground.routes["/bomb"](playground.requests[0])
    playground.route("/bomb", lambda _: bomb)
    tracemalloc.start()
    try:
        run(story())
        assert tracemalloc.get_traced_memory()[1] < 20 * MIB
    finally:
        tracemalloc.stop()


async def _told(url: str) -> None:
    async with outgoing() as out, out.request("HEAD", url):
        pass


def test_what_is_received_has_a_bound(playground):
    async def story():
        async with outgoing() as out:
            with pytest.raises(TooMuch, match="larger than 1,048,576 bytes"):
                await fetch(out, playground.url("/endless"), bounds=Bounds(received=MIB))

    run(story())


@pytest.mark.parametrize(
    ("target", "bounds", "says"),
    [
        ("/hang", Bounds(begin=0.2), r"sent nothing for 0\.2 s"),
        (
            "/hang?begin=HTTP/1.1%20200%20OK%0D%0Acontent-length:%2010%0D%0A%0D%0Aabc",
            Bounds(silence=0.2),
            r"sent nothing for 0\.2 s",
        ),
        ("/slow", Bounds(total=0.3), r"took more than 0\.3 s in all"),
    ],
)
def test_time_has_bounds(playground, target, bounds, says):
    async def story():
        async with outgoing() as out:
            with pytest.raises(Unreachable, match=says) as caught:
                await fetch(out, playground.url(target), bounds=bounds)
            assert caught.value.transient

    run(story())


def test_our_own_time_between_two_parts_does_not_count(playground):
    async def story():
        async with outgoing() as out:
            bounds = Bounds(begin=30, silence=30, total=30)
            async with out.request("GET", playground.url("/ok"), bounds=bounds) as reply:
                reply._patience._left = 5.0
                await asyncio.sleep(0.01)  # for other threads
                assert await reply.read() == b"ok"
                assert reply._patience._left > 4

    run(story())


def test_json_has_a_bound_for_its_depth(playground):
    playground.route("/nested", lambda _: answered(b"[" * 101 + b"]" * 101))
    playground.route("/allowed", lambda _: answered(b'{"a":' * 50 + b"[" * 50 + b"]" * 50 + b"}" * 50))

    async def story():
        async with outgoing() as out:
            for path in ("/deep", "/nested"):
                async with out.request("GET", playground.url(path)) as reply:
                    with pytest.raises(TooMuch, match="nested"):
                        await reply.json()
            async with out.request("GET", playground.url("/allowed")) as reply:
                await reply.json()

    run(story())


@pytest.mark.parametrize(
    ("path", "kind", "says", "transient"),
    [
        ("/reset", Unreachable, "127.0.0.1", True),
        ("/reset?half=1", Unreachable, "cut in the middle|ended its answer", True),
        ("/nonsense", Unreachable, "did not answer in HTTP", True),
        ("/huge-head", TooMuch, "head of 127.0.0.1's answer is too large", False),
        ("/unknown-coding", BadAnswer, "packed in a way that is not known here: zstd", False),
        ("/wrong-coding", BadAnswer, "not packed as it says", False),
        ("/cut-coding", BadAnswer, "ends in the middle", False),
    ],
)
def test_what_goes_wrong_is_one_sentence(playground, path, kind, says, transient):
    async def story():
        async with outgoing() as out:
            with pytest.raises(kind, match=says) as caught:
                await fetch(out, playground.url(path))
            assert caught.value.transient is transient

    run(story())


# -- answers that are not what was asked for


@pytest.mark.parametrize(
    ("status", "transient"),
    [(400, False), (404, False), (408, True), (425, True), (429, True), (500, True), (503, True)],
)
def test_a_bad_status_is_an_error_with_its_details(playground, status, transient):
    async def story():
        async with outgoing() as out:
            url = playground.url(f"/status?status={status}&body=go+away&retry-after=7")
            async with out.request("GET", url) as reply:
                assert reply.asked == Asked(7 * SECOND)
                with pytest.raises(
                    BadAnswer, match=f"127.0.0.1 answered {status}. It begins: go away"
                ) as caught:
                    await reply.require_good()
        error = caught.value
        assert (error.status, error.excerpt, error.transient) == (status, "go away", transient)
        assert error.headers["retry-after"] == "7"

    run(story())


def test_a_secret_at_the_edge_of_what_is_shown_is_hidden_too(playground, monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cret-token")
    playground.route("/edge", lambda r: answered(b"x" * 490 + b"s3cret-token" + b"y" * 5000, 500))

    async def story():
        async with outgoing() as out:
            credentials = Credentials(Bearer("env:TOKEN"))
            async with out.request("GET", playground.url("/edge"), credentials=credentials) as reply:
                with pytest.raises(BadAnswer) as caught:
                    await reply.require_good()
        assert "s3cret" not in str(caught.value)

    run(story())


@pytest.mark.parametrize(
    "url", ["http://[half", "http://", "ftp://example.org", "http://a b/", "http://u:p@a.org/"]
)
def test_what_is_no_url_is_refused_before_anything_is_sent(url):
    async def story():
        async with outgoing() as out:
            with pytest.raises(NotAllowed):
                await fetch(out, url, params=[("a", "b")])

    run(story())


def test_html_is_no_json_and_is_shown(playground):
    async def story():
        async with outgoing() as out, out.request("GET", playground.url("/html")) as reply:
            with pytest.raises(BadAnswer, match=r"did not answer with JSON\. It begins: <html>Please log in"):
                await reply.json()

    run(story())


# -- who we are


def test_credentials_are_read_when_they_are_sent(playground, monkeypatch, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("first\n")
    given = Credentials(Bearer(f"file:{secret}"))

    async def story():
        async with outgoing() as out:
            await fetch(out, playground.url("/ok"), credentials=given)
            secret.write_text("second\n")
            await fetch(out, playground.url("/ok"), credentials=given)
            monkeypatch.setenv("WORD", "pässword")
            await fetch(out, playground.url("/ok"), credentials=Credentials(Basic("ann", "env:WORD")))
            monkeypatch.setenv("KEY", "a/b c")
            await fetch(out, playground.url("/ok?x=1"), credentials=Credentials(InQuery("key", "env:KEY")))
            with pytest.raises(Invalid, match="no secret at env:NOWHERE"):
                await fetch(out, playground.url("/ok"), credentials=Credentials(Bearer("env:NOWHERE")))
            monkeypatch.setenv("TWO_LINES", "s3cret\nX-Evil: 1")
            with pytest.raises(Invalid, match="env:TWO_LINES cannot stand in a header") as caught:
                await fetch(out, playground.url("/ok"), credentials=Credentials(Bearer("env:TWO_LINES")))
            assert "s3cret" not in str(caught.value)

    run(story())
    sent = [request.headers.get("authorization") for request in playground.requests]
    assert sent == ["Bearer first", "Bearer second", "Basic YW5uOnDDpHNzd29yZA==", None]
    assert playground.requests[3].target == "/ok?x=1&key=a%2Fb%20c"


def test_a_token_is_asked_for_once_a_run_and_again_when_it_is_refused(playground, monkeypatch):
    monkeypatch.setenv("CLIENT_SECRET", "s3cret")
    good = {"token": "t1"}
    playground.route("/token", lambda _: answered_json({"access_token": good["token"], "expires_in": 3600}))
    playground.route(
        "/data",
        lambda r: (
            answered(b"data")
            if r.headers["authorization"] == f"Bearer {good['token']}"
            else answered(b"", 401)
        ),
    )

    async def story():
        given = Credentials(
            ClientCredentials(playground.url("/token"), "me", "env:CLIENT_SECRET", "read write")
        )
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
    """Neither in errors, whatever the other side repeats, nor in the log at its most talkative."""
    caplog.set_level("DEBUG")
    monkeypatch.setenv("TOKEN", "s3cret-token")
    playground.route("/parrot", lambda r: answered((r.target + str(r.headers)).encode(), 400))
    playground.route("/bad-token", lambda r: answered(str(r.headers).encode(), 401))
    shown = []

    async def story():
        async with outgoing() as out:
            for auth in (
                Bearer("env:TOKEN"),
                InHeader("X-Key", "env:TOKEN"),
                InQuery("key", "env:TOKEN"),
                Basic("ann", "env:TOKEN"),
                ClientCredentials(playground.url("/bad-token"), "me", "env:TOKEN"),
            ):
                with pytest.raises(BadAnswer) as caught:
                    async with out.request(
                        "GET", playground.url("/parrot"), credentials=Credentials(auth)
                    ) as reply:
                        await reply.require_good()
                shown.append(f"{caught.value} {caught.value.excerpt}")

    run(story())
    sent = str(playground.requests)
    assert "s3cret-token" in sent
    for text in (*shown, caplog.text):
        for secret in ("s3cret", "YW5uOnMzY3JldC10b2tlbg", "bWU6czNjcmV0"):
            assert secret not in text
    assert all("***" in text for text in shown)


def depth_of(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@given(st.recursive(st.integers() | st.sampled_from(["{", "[[", "]}"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("[{", max_size=2), inner, max_size=4),
    max_leaves=20), st.integers(1, 5))  # fmt: skip
def test_json_is_refused_exactly_if_it_is_deeper_than_it_may_be(value, deepest):
    body = json.dumps(value).encode()
    if depth_of(value) > deepest:
        with pytest.raises(TooMuch):
            parse_json(body, "It", deepest)
    else:
        assert parse_json(body, "It", deepest) == value
