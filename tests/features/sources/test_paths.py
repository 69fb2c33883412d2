"""Paths: names with @, and the difference between null and nothing."""

import pytest

from ostinato.core.errors import Invalid
from ostinato.features.sources.rules.paths import MISSING, check_path, find, getter, parts_of

ODATA = {
    "@odata.nextLink": "/next",
    "value": [{"@odata.etag": "7", "Orders@odata.count": 3}],
    "@graph": {"x": 1},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("@odata.nextLink", "/next"),
        ("value.0.@odata.etag", "7"),
        ("value.0.Orders@odata.count", 3),
        ("@graph.x", 1),
        ('value[0]."@odata.etag"', "7"),
        ('"@odata.nextLink"', "/next"),
        ("@.value[0].nothing", None),
        ("@", ODATA),
    ],
)
def test_a_name_may_begin_with_an_at_sign(path, found):
    assert getter(check_path(path, "nextUrlPath"))(ODATA) == found


def test_only_the_dot_of_an_odata_annotation_belongs_to_the_name():
    assert parts_of("@odata.nextLink") == ("@odata.nextLink",)
    assert parts_of("d.@odata.type.x") == ("d", "@odata.type", "x")
    assert parts_of("@graph.x") == ("@graph", "x")


def test_an_at_sign_inside_a_jmespath_must_be_quoted_and_the_error_shows_how():
    with pytest.raises(Invalid, match=r'no JMESPath.* double quotes: value\[0\]\."@odata\.etag"$'):
        check_path("value[0].@odata.etag", "source")
    with pytest.raises(Invalid, match="no JMESPath") as refused:
        check_path("value[", "source")
    assert "quotes" not in str(refused.value)


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("items", {"items": [1]}, [1]),
        ("items", {"items": None}, None),
        ("items", {}, MISSING),
        ("data.items", {"data": {"items": None}}, None),
        ("data.items", {"data": {}}, MISSING),
        ("data.items", {"data": None}, MISSING),
        ("data.items", [], MISSING),
        (".", None, None),
        (".", [1], [1]),
        ("0.items", [{"items": None}], None),
        ("data[0].items", {"data": [{}]}, MISSING),
    ],
)
def test_null_is_told_from_missing(path, value, found):
    assert find(path, value) == found
