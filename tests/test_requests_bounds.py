"""Limits of requests, and wrong answers, with a real server that misbehaves."""

import json
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.auth import Bearer
from ostinato.core.errors import BadAnswer, NotAllowed, TooMuch, Unreachable
from ostinato.outgoing import Bounds, Credentials
from ostinato.outgoing.reply import RateHeaders, parse_json
from tests.build import SECOND
from tests.calls import fetch, outgoing, run
from tests.playground import answered

MIB = 1024 * 1024


# -- bounds


@pytest.mark.parametrize("kind", ["gzip", "deflate", "br"])
def test_a_bomb_is_stopped_before_it_fills_the_memory(playground, kind):
    url = playground.url(f"/bomb?megabytes=100&kind={kind}")
    run(_told(url))  # the server builds the answer now, not during the measurement

    async def story():
        async with outgoing() as out:
            with pytest.raises(TooMuch, match="decompresses to more than 1,048,576 bytes") as caught:
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
        ("/slow", Bounds(total=0.3), r"took more than 0\.3 s in total"),
    ],
)
def test_time_has_bounds(playground, target, bounds, says):
    async def story():
        async with outgoing() as out:
            with pytest.raises(Unreachable, match=says) as caught:
                await fetch(out, playground.url(target), bounds=bounds)
            assert caught.value.transient

    run(story())


def test_our_own_time_between_two_parts_does_not_count(playground, monkeypatch):
    really, ahead = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: really() + ahead[0])

    async def story():
        async with outgoing() as out:
            bounds = Bounds(begin=30, silence=30, total=30)
            async with out.request("GET", playground.url("/ok"), bounds=bounds) as reply:
                ahead[0] = 90.0  # the time that the client took for the first part
                assert await reply.read() == b"ok"
                assert reply._patience._left > 0

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
        ("/reset?half=1", Unreachable, "broke in the middle|ended its answer", True),
        ("/nonsense", Unreachable, "did not answer in HTTP", True),
        ("/huge-head", TooMuch, "headers of 127.0.0.1's answer are too large", False),
        ("/unknown-coding", BadAnswer, "unknown Content-Encoding: zstd", False),
        ("/wrong-coding", BadAnswer, "does not match its Content-Encoding", False),
        ("/cut-coding", BadAnswer, "compressed answer is incomplete", False),
    ],
)
def test_what_goes_wrong_is_one_sentence(playground, path, kind, says, transient):
    async def story():
        async with outgoing() as out:
            with pytest.raises(kind, match=says) as caught:
                await fetch(out, playground.url(path))
            assert caught.value.transient is transient

    run(story())


# -- wrong answers


@pytest.mark.parametrize(
    ("status", "transient"),
    [(400, False), (404, False), (408, True), (425, True), (429, True), (500, True), (503, True)],
)
def test_a_bad_status_is_an_error_with_its_details(playground, status, transient):
    async def story():
        async with outgoing() as out:
            url = playground.url(f"/status?status={status}&body=go+away&retry-after=7")
            async with out.request("GET", url) as reply:
                assert reply.asked == RateHeaders(7 * SECOND)
                with pytest.raises(BadAnswer, match=f"127.0.0.1 answered {status}. It begins: go away") as caught:
                    await reply.require_good()
        error = caught.value
        assert (error.status, error.excerpt, error.transient) == (status, "go away", transient)
        assert error.headers["retry-after"] == "7"

    run(story())


def test_a_secret_at_the_edge_of_what_is_shown_is_hidden_too(playground, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "s3cret-token")
    playground.route("/edge", lambda r: answered(b"x" * 490 + b"s3cret-token" + b"y" * 5000, 500))

    async def story():
        async with outgoing() as out:
            credentials = Credentials(Bearer("env:SECRET_TOKEN"))
            async with out.request("GET", playground.url("/edge"), credentials=credentials) as reply:
                with pytest.raises(BadAnswer) as caught:
                    await reply.require_good()
        assert "s3cret" not in str(caught.value)

    run(story())


@pytest.mark.parametrize("url", ["http://[half", "http://", "ftp://example.org", "http://a b/", "http://u:p@a.org/"])
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
