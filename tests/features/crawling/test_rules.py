"""The rules of crawling: which URLs are one page, what is in scope, when a site rests, what a job may say."""

from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.arguments import read
from ostinato.core.builtin import Permits
from ostinato.core.errors import WrongArgument
from ostinato.core.schedule import Cron, Every, Manual
from ostinato.feature import our_features
from ostinato.features.crawling.args import CrawlArgs
from ostinato.features.crawling.ledger import Scope, fits
from ostinato.features.crawling.rows import rests_until
from ostinato.features.crawling.urls import canonical, host_of, page_id, path_of
from tests.build import DAY, HOUR, NOW

PAGE = "http://example.org/a?x=1&y=2"


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/a?y=2&x=1",
        "HTTP://EXAMPLE.org:80/a?x=1&y=2#top",
        "http://example.org./a?x=1&&y=2&",
        "http://example.org/b/../a?x=1&y=2",
        "http://example.org/./a?x=1&y=2&utm_source=mail&gclid=7",
        "  http://example.org/%61?%78=1&y=2 ",
    ],
)
def test_what_means_the_same_page_is_the_same_url(url):
    assert canonical(url) == PAGE


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("https://example.org:443/index.html", "https://example.org/"),
        ("https://example.org/docs/Index.HTM?b=1", "https://example.org/docs/?b=1"),
        ("https://example.org/docs", "https://example.org/docs"),
        ("https://example.org/docs/", "https://example.org/docs/"),
        ("https://example.org:8443/", "https://example.org:8443/"),
        ("https://münchen.example/straße?q=ä b", "https://xn--mnchen-3ya.example/stra%C3%9Fe?q=%C3%A4%20b"),
        ("https://example.org/a%2fb/100%", "https://example.org/a%2Fb/100%25"),
        ("http://[2001:DB8::1]/", "http://[2001:db8::1]/"),
    ],
)
def test_a_url_has_one_spelling(url, page):
    assert canonical(url) == page
    assert canonical(page) == page


@pytest.mark.parametrize(
    "url",
    ["mailto:a@example.org", "javascript:void(0)", "http://", "http:///x", "http://user:pw@example.org/", "/a",
     "http://example.org:0/", "http://example.org:99999/", "http://[broken/", "ftp://example.org/",
     "http://x/" + "a" * 3000],
)  # fmt: skip
def test_what_is_no_page_is_none(url):
    assert canonical(url) is None


def test_links_are_seen_from_their_page():
    assert canonical("../c?z=1#x", "http://example.org/a/b") == "http://example.org/c?z=1"
    assert canonical("//other.example/x", "https://example.org/") == "https://other.example/x"


@given(st.text(max_size=60), st.text(max_size=40), st.text(max_size=40))
def test_a_canonical_url_stays_as_it_is(host, path, query):
    found = canonical(f"http://{host}/{path}?{query}")
    if found is not None:
        assert canonical(found) == found
        assert found == f"http://{host_of(found)}{path_of(found)}"


def test_the_number_of_a_page_fits_both_databases_and_belongs_to_its_job():
    one, other = UUID(int=1), UUID(int=2)
    assert 0 <= page_id(one, PAGE) < 2**63
    assert page_id(one, PAGE) == page_id(one, PAGE) != page_id(other, PAGE)


@pytest.mark.parametrize(
    ("pattern", "path", "is_meant"),
    [
        ("/blog/", "/blog/a", True), ("/blog/", "/blog", False), ("/*.pdf$", "/a/b.pdf", True),
        ("/*.pdf$", "/a.pdf?x=1", False), ("/a$", "/a", True), ("/a$", "/ab", False), ("*page=", "/x?page=2", True),
        ("/a*b*c$", "/a-b-b-c", True), ("/a*b*c$", "/a-c", False), ("/*aa$", "/a", False),
        ("https://example.org/x", "/x", True), ("https://example.org/y", "/x", False),
    ],
)  # fmt: skip
def test_patterns_are_those_of_robots(pattern, path, is_meant):
    url = "https://example.org/x" if pattern.startswith("https") else "https://example.org" + path
    assert fits(pattern, url, path) is is_meant


def test_the_scope_is_the_host_and_what_the_job_allows():
    args = read(
        CrawlArgs,
        {"url": "https://example.org", "hosts": ["Docs.example.org"], "deny": ["/old/"], "max_depth": 2},
    )
    scope = Scope.of(args)
    assert scope.wants("https://example.org/a", 2)
    assert scope.wants("https://docs.example.org/", 1)
    assert not scope.wants("https://example.org/a", 3)
    assert not scope.wants("https://example.org/old/a", 1)
    assert not scope.wants("https://www.example.org/", 1)
    assert scope.with_host("www.example.org").wants("https://www.example.org/", 1)


# -- resting


@pytest.mark.parametrize(("unchanged", "hours"), [(0, None), (1, 2), (2, 4), (3, 8), (4, 10), (40, 10)])
def test_a_site_that_does_not_change_rests_twice_as_long_each_time_up_to_the_cap(unchanged, hours):
    until = rests_until(Every(HOUR), NOW, unchanged, 10 * HOUR)
    assert until == (None if hours is None else NOW + hours * HOUR)


def test_it_rests_until_a_due_time_of_the_schedule():
    until = rests_until(Cron("0 9 * * mon-fri"), NOW, 1, 30 * DAY)
    assert until is not None
    assert (until.hour, until.minute) == (9, 0)
    assert until.weekday() < 5
    assert rests_until(Every(HOUR), NOW, 1, HOUR * 3 / 2) == NOW + 2 * HOUR
    assert rests_until(Every(DAY), NOW, 5, HOUR) == NOW + DAY  # a cap below the interval changes nothing
    assert rests_until(Manual(), NOW, 5, HOUR) is None


# -- args


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({}, "args.url is required"),
        ({"url": "ftp://example.org"}, "http or https"),
        ({"url": "https://example.org", "max_page": 5}, "did you mean max_pages"),
        ({"url": "https://example.org", "hosts": ["https://x.org/"]}, "must be a host like www.example.org"),
        ({"url": "https://example.org", "allow": ["blog"]}, "must begin with /"),
        ({"url": "https://example.org", "extract": {"Price!": "b"}}, "is not a name for a column"),
        ({"url": "https://example.org", "extract": {"price": "b[["}}, "args.extract.price cannot be read"),
        ({"url": "https://example.org", "extract": {"price": "//b["}}, "args.extract.price cannot be read"),
        ({"url": "https://example.org", "extract": {"price": {"css": "b", "xpath": "//b"}}}, "either css or xpath"),
        ({"url": "http://127.0.0.1/"}, "args.url must not lead into a private network"),
        ({"url": "https://example.org", "start_urls": ["http://10.0.0.1/"]}, r"start_urls\[0\] must not lead"),
        ({"url": "https://example.org", "user_agent": "a\nb"}, "must be one line"),
    ],
)  # fmt: skip
def test_args_that_cannot_be_are_refused_with_the_field(args, said):
    with pytest.raises(WrongArgument, match=said):
        our_features().check("crawl", args, Permits())


def test_the_words_of_seed_003_are_args_too():
    our_features().check(
        "crawl",
        {"url": "https://example.com", "source_id": "news-site", "source_name": "example.com"},
        Permits(),
    )


def test_the_longest_rest_is_a_duration():
    assert read(CrawlArgs, {"url": "https://example.org", "rest_up_to": "7d"}).rest_up_to == timedelta(days=7)
