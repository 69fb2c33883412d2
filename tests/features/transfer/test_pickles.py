"""Pickles are read without running anything: hostile ones are refused, whatever they try."""

import os
import pickle
import subprocess
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ostinato.core.errors import Invalid
from ostinato.features.transfer.rules.pickles import Kept, read_pickle

FUNCTIONS = [os.system, os.mkdir, eval, exec, subprocess.check_call, __import__, open]
ALLOWED = frozenset({("some.triggers", "Trigger")})


class Calls:
    """A pickle of this calls a function with arguments when it is loaded."""

    def __init__(self, function, *args):
        self.function, self.args = function, args

    def __reduce__(self):
        return self.function, self.args


def refused(data):
    with pytest.raises(Invalid) as error:
        read_pickle(data, ALLOWED)
    return str(error.value)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_nothing_that_a_pickle_names_is_called(tmp_path, function, protocol):
    mark = tmp_path / "ran"
    arguments = {
        os.system: f"mkdir {mark}", os.mkdir: str(mark), eval: f"__import__('os').mkdir({str(mark)!r})",
        exec: f"import os; os.mkdir({str(mark)!r})", subprocess.check_call: ["mkdir", str(mark)],
        __import__: "antigravity", open: str(mark),
    }  # fmt: skip
    given = (arguments[function], "w") if function is open else (arguments[function],)
    assert "which is not read" in refused(pickle.dumps({"a": [Calls(function, *given)]}, protocol))
    assert not mark.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"\x80\x04\x8c\x08datetime\x8c\x03sys\x93.",  # a module inside an allowed one
        b"\x80\x04\x8c\x0dsome.triggers\x8c\x14Trigger.__init_subcl\x93.",
        b"\x80\x04cbuiltins\ngetattr\ncdatetime\ndatetime\n\x8c\x0b__subclasses\x86R.",  # getattr of something else
        b"\x80\x04cbuiltins\ngetattr\nczoneinfo\nZoneInfo\n\x8c\x08__init__\x86R.",
        b"cpytz\n_p\n(S'../../../etc/passwd'\ntR.",
        b"cpytz\n_p\n(I1\ntR.",
        b"\x80\x02\x82\x01.",  # the extension registry
        b"Pid\n.",  # a persistent id
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",  # a bytearray of 2**63 bytes
        b"\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",  # a text of that length
        b"",
        b"not a pickle",
        b"\x80\x04.",
        b"\x80\x09.",
        b"N" * 2_000_000,
    ],
    ids=range(16),
)
def test_a_pickle_that_tries_something_else_is_refused(data):
    assert refused(data)


def test_a_place_far_away_in_the_memo_takes_no_memory():
    found = read_pickle(b"\x80\x02Nr\xff\xff\xff\x7f.", ALLOWED)  # LONG_BINPUT 2**31 - 1: 16 GB in C
    assert found is None


def test_a_deep_pickle_is_refused_or_read_and_never_ends_the_process():
    for depth in (10, 100_000):
        data = b"]" * depth + b"a" * (depth - 1) + b"."
        try:
            read_pickle(data, ALLOWED)
        except Invalid:
            continue


def test_an_allowed_class_keeps_what_it_is_given_and_nothing_else_happens():
    class Trigger:
        def __init__(self):
            self.hour = 9

    Trigger.__module__, Trigger.__qualname__ = "some.triggers", "Trigger"
    data = b"\x80\x04\x8c\x0dsome.triggers\x8c\x07Trigger\x93)\x81}\x8c\x04hourK\x09sb."
    found = read_pickle(data, ALLOWED)
    assert (isinstance(found, Kept), found.kind, found.state) == (True, "Trigger", {"hour": 9})
    assert type(found) is not type(read_pickle(data, ALLOWED)), (
        "its class is made anew: nobody can change it for others"
    )


def test_values_of_the_standard_library_are_read():
    paris = ZoneInfo("Europe/Paris")
    given = {
        "at": datetime(2027, 5, 1, 12, tzinfo=UTC), "local": datetime(2027, 5, 1, 12, tzinfo=paris),
        "period": timedelta(hours=3), "zone": paris, "many": [1, 2.5, "a", None, (True, {3})],
    }  # fmt: skip
    del given["many"][4:]
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        found = read_pickle(pickle.dumps(given, protocol), ALLOWED)
        assert (found.pop("zone").key, found) == (
            "Europe/Paris",
            {name: given[name] for name in given if name != "zone"},
        )


@given(some.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data):
    with suppress(Invalid):
        read_pickle(data, ALLOWED)


@given(some.data())
def test_any_pickle_with_bytes_changed_is_read_or_refused(drawn):
    whole = bytearray(pickle.dumps({"at": datetime(2027, 5, 1, tzinfo=UTC), "x": [Calls(os.getpid)]}))
    for place in drawn.draw(some.lists(some.integers(0, len(whole) - 1), max_size=5)):
        whole[place] = drawn.draw(some.integers(0, 255))
    with suppress(Invalid):
        read_pickle(bytes(whole), ALLOWED)
