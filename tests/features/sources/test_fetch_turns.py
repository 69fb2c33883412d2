"""Short switch intervals of Python's lock while pages are fetched, and the usual one before and after."""

import sys

import pytest

from ostinato.features.sources.task import QUICK, TURNS, Turns
from tests.features.sources.test_fetch import app, run_once  # noqa: F401  a fixture
from tests.played_api import PlayedApi, a_source_of


@pytest.fixture(autouse=True)
def usual():
    before = sys.getswitchinterval()
    yield before
    sys.setswitchinterval(before)


def test_turns_are_quick_until_the_last_who_wants_them_is_done(usual):
    turns = Turns()
    with turns.quick():
        with turns.quick():
            assert sys.getswitchinterval() == pytest.approx(QUICK)
        assert sys.getswitchinterval() == pytest.approx(QUICK)
    assert sys.getswitchinterval() == usual


def test_they_are_the_usual_ones_again_after_a_failure(usual):
    with pytest.raises(OSError, match="gone"), TURNS.quick():
        raise OSError("gone")
    assert sys.getswitchinterval() == usual


def test_whoever_has_chosen_even_quicker_ones_keeps_them():
    sys.setswitchinterval(QUICK / 3)
    chosen = sys.getswitchinterval()
    with TURNS.quick():
        assert sys.getswitchinterval() == chosen
    assert sys.getswitchinterval() == chosen


def test_what_the_program_chooses_meanwhile_stays():
    with TURNS.quick():
        sys.setswitchinterval(0.002)
    assert sys.getswitchinterval() == pytest.approx(0.002)


def test_a_fetch_takes_quick_turns_and_leaves_the_usual_ones(app, usual):  # noqa: F811
    seen = []
    with PlayedApi() as api:

        def look(handler):
            seen.append(sys.getswitchinterval())  # the API of this test is a thread of the same process
            handler.answer({"data": {"items": handler.api.slice(0, 3)}})

        api.bodies["/look"] = look
        assert run_once(app, a_source_of(api.url("/look"), path="data.items")).outcome == "completed"
    assert seen == [pytest.approx(QUICK)]
    assert sys.getswitchinterval() == usual
