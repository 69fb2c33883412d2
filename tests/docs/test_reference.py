"""The Python reference: its signatures are those of the source, and no public name is missing."""

import re

import pytest

import ostinato
from ostinato.core import errors
from tests.docs.pages import name_of
from tests.docs.reference import MARK, found_at, members, pages, renewed

CLASSES = re.compile(r"^<!-- [\w.]+ = ([\w.]+)(?:\(\))? -->$", re.M)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_the_signatures_are_those_of_the_source(page):
    assert renewed(page.read_text()) == page.read_text(), "run `make reference`"


def test_every_public_name_has_a_place():
    text = "\n".join(page.read_text() for page in pages())
    described = [found_at(path) for path in CLASSES.findall(text)]
    tree = set(re.findall(r"(?:├── |└── |^)(\w+)", errors.__doc__, re.M))
    public = {name: getattr(ostinato, name) for name in ostinato.__all__}
    assert [name for name, found in public.items() if found not in described and name not in tree] == []


def test_text_about_a_member_that_is_gone_is_refused():
    page = "<!-- handle = Handle -->\n<!-- end -->\n<!-- handle.gone -->\n<!-- end -->\nIt was good.\n"
    with pytest.raises(SystemExit, match=r"handle\.gone"):
        renewed(page)


def test_text_between_the_marks_is_kept():
    page = renewed("# Title\n\n<!-- GiveUp = GiveUp() -->\n<!-- end -->\n\nOurs.\n")
    assert page.startswith("# Title\n\n<!-- GiveUp = GiveUp() -->\n\n## GiveUp\n")
    assert page.endswith("<!-- end -->\n\nOurs.\n")
    assert 'GiveUp(reason: str = "")' in page


def test_a_missing_member_is_added():
    (mark, text) = MARK.split(renewed("<!-- handle = Handle -->\n<!-- end -->\n"))[-2:]
    assert (mark, text) == (f"handle.{members(ostinato.Handle)[-1]}", "")


def test_overloads_are_all_shown():
    page = renewed("<!-- app = Ostinato -->\n<!-- end -->\n")
    assert page.count("\napp.task(") == 3
