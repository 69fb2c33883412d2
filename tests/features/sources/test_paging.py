"""Which page comes next, for each way in which APIs hand out their pages."""

import json

import pytest

from ostinato.core.errors import Invalid
from ostinato.features.sources.rules import read_source
from ostinato.features.sources.rules.paging import (
    Checkpoint,
    DoesNotAdvance,
    PageStep,
    SeenPage,
    Trail,
    linked,
    missing_params,
    next_step,
    url_of,
    values_of,
)
from tests.sources import a_source

URL = "https://api.example.org/v1/series"
FIRST = PageStep()


def paging(**given):
    return read_source(a_source(pagination=given)).paging


def test_pages_are_numbered_from_1():
    by = paging(type="page", pageParam="p", limitParam="size", limit=2)
    assert values_of(by, FIRST) == [("p", 1), ("size", 2)]
    second = next_step(by, FIRST, SeenPage(2), URL)
    assert values_of(by, second) == [("p", 2), ("size", 2)]
    assert next_step(by, second, SeenPage(1), URL) is None
    assert next_step(by, second, SeenPage(0), URL) is None


@pytest.mark.parametrize("yes", [True, 1, "true", "https://x/next", 7])
def test_has_more_says_so(yes):
    by = paging(type="page", hasMorePath="more")
    assert next_step(by, FIRST, SeenPage(0, more=yes), URL) == PageStep(2)


@pytest.mark.parametrize("no", [False, None, 0, "false", "", "No"])
def test_has_more_says_no(no):
    by = paging(type="page", hasMorePath="more")
    assert next_step(by, FIRST, SeenPage(100, more=no), URL) is None


def test_an_offset_grows_by_the_limit():
    by = paging(type="offset", offsetParam="skip", limit=50)
    assert values_of(by, FIRST) == [("skip", 0), ("limit", 50)]
    assert values_of(by, PageStep(3)) == [("skip", 100), ("limit", 50)]


def test_the_first_request_carries_no_cursor():
    by = paging(type="cursor", cursorParam="after", nextCursorPath="next")
    assert values_of(by, FIRST) == []
    second = next_step(by, FIRST, SeenPage(1, next="abc"), URL)
    assert values_of(by, second) == [("after", "abc")]
    for end in (None, "", False, {}):
        assert next_step(by, second, SeenPage(1, next=end), URL) is None
    assert next_step(by, second, SeenPage(1, next=0), URL) == PageStep(3, "0")


@pytest.mark.parametrize(
    ("header", "url"),
    [
        ('<https://x/2>; rel="next"', "https://x/2"),
        ('<https://x/1>; rel="prev", <https://x/3?a=1,2>; rel=next; title="a, b"', "https://x/3?a=1,2"),
        ('<https://x/2>; title="rel=next"; rel="last"', ""),
        ('<https://x/2>; rel="last next"', "https://x/2"),
        ("", ""),
        ("rubbish, <", ""),
    ],
)
def test_the_next_page_of_a_link_header(header, url):
    assert linked(header) == url


def test_a_next_url_may_be_relative_and_stays_on_its_host():
    by = paging(type="next_url", nextUrlPath="paging.next")
    second = next_step(by, FIRST, SeenPage(1, next="?page=2"), URL)
    assert url_of(by, second, URL) == URL + "?page=2"
    with pytest.raises(Invalid, match="another host"):
        next_step(by, FIRST, SeenPage(1, next="https://evil.example/"), URL)
    assert next_step(by, FIRST, SeenPage(1, next=None), URL) is None


def test_parameters_are_added_to_a_url_that_lacks_them():
    assert missing_params(URL + "?page=2&series=X", [("series", "GDP"), ("key", "k")]) == [("key", "k")]


def test_a_cursor_that_was_there_before_does_not_advance():
    trail = Trail()
    for step in (FIRST, PageStep(2, "a"), PageStep(3, "b")):
        trail.go(step)
    with pytest.raises(DoesNotAdvance, match="pagination does not advance"):
        trail.go(PageStep(4, "a"))


@pytest.mark.parametrize("following", [None, PageStep(7, "x")])
def test_a_checkpoint_comes_back_as_it_was_written(following):
    checkpoint = Checkpoint(following, "abc", 2, {"pages": 6})
    assert Checkpoint.of(json.loads(json.dumps(checkpoint.to_json()))) == checkpoint


@pytest.mark.parametrize("other", [None, 7, {}, {"next": 1}, {"next": {"page": 1}, "source": "a", "attempt": 1}])
def test_what_is_no_checkpoint_of_ours_is_none(other):
    assert Checkpoint.of(other) is None
