"""A page's list of records that is null, missing or of another type, in small and large pages."""

import io
import json

import pytest

from ostinato.core.errors import BadAnswer
from ostinato.features.sources.fetch.page import LARGE, FetchedPage
from ostinato.features.sources.fetch.records import read
from ostinato.features.sources.rules import read_source
from tests.sources import DEFINITION, a_source

FILLER = {"small": "", "large": "x" * LARGE}


def records_of(document, filler: str, *, stored: bool = False, **response) -> list:
    body = json.dumps(document | {"filler": filler}).encode()
    page = FetchedPage("http://x/", io.BytesIO(body), len(body), 1, {}, None, lambda told, _: BadAnswer(told, 200))
    source = read_source(a_source(response=DEFINITION["response"] | response))
    records = read(page, source, lambda: stored)
    return [each for chunk in records.chunks for each in chunk]


@pytest.mark.parametrize("filler", FILLER.values(), ids=FILLER)
@pytest.mark.parametrize("stored", [True, False])
def test_null_or_an_empty_list_is_a_page_without_records(filler, stored):
    for empty in (None, []):
        assert records_of({"data": {"items": empty}}, filler, stored=stored) == []


@pytest.mark.parametrize("filler", FILLER.values(), ids=FILLER)
@pytest.mark.parametrize("document", [{}, {"data": {}}, {"data": None}])
def test_a_missing_list_is_a_failure_until_the_source_has_stored_a_record(filler, document):
    with pytest.raises(BadAnswer, match=r"no records at 'data.items': there is nothing; .*whenMissing: empty"):
        records_of(document, filler)
    assert records_of(document, filler, stored=True) == []
    assert records_of(document, filler, whenMissing="empty") == []
    with pytest.raises(BadAnswer, match="there is nothing"):
        records_of(document, filler, stored=True, whenMissing="fail")


@pytest.mark.parametrize("filler", FILLER.values(), ids=FILLER)
@pytest.mark.parametrize(
    ("found", "what"), [({"a": 1}, "an object"), ("no", "a text"), (7, "a number"), (True, "a boolean")]
)
def test_what_is_no_list_is_a_failure_whatever_was_stored(filler, found, what):
    with pytest.raises(BadAnswer, match=f"it is {what}, not a list"):
        records_of({"data": {"items": found}}, filler, stored=True, whenMissing="empty")
