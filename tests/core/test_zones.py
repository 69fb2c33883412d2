"""Time zones: names, data, and the one thing our arithmetic takes for granted about them."""

import struct
from datetime import datetime, timedelta
from importlib.resources import files
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from ostinato.core import times as zones
from ostinato.core.errors import Invalid
from ostinato.core.times import gap_end, passes, wall_span, zone, zone_data_version, zone_names
from tests.core.cron_oracle import utc


def test_the_data_is_that_of_the_tzdata_package():
    in_december = utc("2026-12-01T00:00Z").astimezone(zone("America/Vancouver"))
    assert in_december.utcoffset() == timedelta(hours=-7)  # since 2026; older data says -8
    assert zone_data_version() >= "2026"


def test_a_zone_is_read_once():
    assert zone("Europe/Paris") is zone("Europe/Paris")


def test_every_zone_can_be_read():
    for name in zone_names():
        assert isinstance(zone(name), ZoneInfo)
        assert zone(name).key == name


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("Europe/Pari", "did you mean Europe/Paris?"),
        ("europe/paris", "did you mean Europe/Paris?"),
        ("Paris", "did you mean Europe/Paris?"),
        ("New York", "did you mean America/New_York?"),
        ("", "use a name such as Europe/Paris or UTC."),
        ("../../../etc/passwd", "use a name such as Europe/Paris or UTC."),
        ("/etc/localtime", "use a name such as Europe/Paris or UTC."),
        ("x" * 100_000, "use a name such as Europe/Paris or UTC."),
    ],
)
def test_an_unknown_zone_is_refused_with_advice(name, advice):
    with pytest.raises(Invalid, match="There is no time zone") as refusal:
        zone(name)
    assert str(refusal.value).endswith(advice)
    assert len(str(refusal.value)) < 200


def wall(text):
    return datetime.fromisoformat(text)


def test_a_wall_time_is_shown_once_or_never_or_twice():
    new_york = zone("America/New_York")
    assert passes(wall("2026-11-16T09:00"), new_york) == (utc("2026-11-16T14:00Z"),)
    assert passes(wall("2026-03-08T02:30"), new_york) == ()
    assert passes(wall("2026-11-01T01:30"), new_york) == (utc("2026-11-01T05:30Z"), utc("2026-11-01T06:30Z"))


@pytest.mark.parametrize("inside", ["2011-12-30T00:00", "2011-12-30T09:00", "2011-12-30T23:59:59"])
def test_a_gap_ends_at_one_instant_wherever_one_is_in_it(inside):
    assert gap_end(wall(inside), zone("Pacific/Apia")) == utc("2011-12-30T10:00Z")


def test_the_wall_span_has_two_ends_only_inside_a_fold():
    new_york = zone("America/New_York")
    assert wall_span(utc("2026-11-16T14:00Z"), new_york) == (wall("2026-11-16T09:00"),) * 2
    for pass_of_half_past_one, span in [
        ("2026-11-01T05:30Z", (wall("2026-11-01T00:30"), wall("2026-11-01T01:30"))),
        ("2026-11-01T06:30Z", (wall("2026-11-01T01:30"), wall("2026-11-01T02:30"))),
    ]:
        assert wall_span(utc(pass_of_half_past_one), new_york) == span


def test_no_zone_changes_its_offset_twice_within_the_calm():
    calm = zones.CALM.total_seconds()
    for name in zone_names():
        times = changes_of_offset(files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes())
        assert all(later - earlier > calm for earlier, later in pairwise(times)), name


def changes_of_offset(data):
    """When the offset changes, from the second, 64-bit block of a TZif file (RFC 9636)."""
    utc_flags, wall_flags, leaps, count, types, letters = struct.unpack(">6l", data[20:44])
    second = data[44 + count * 5 + types * 6 + letters + leaps * 8 + wall_flags + utc_flags :]
    *_, count, types, _ = struct.unpack(">6l", second[20:44])
    times = struct.unpack(f">{count}q", second[44 : 44 + count * 8])
    kinds = second[44 + count * 8 : 44 + count * 9]
    table = second[44 + count * 9 : 44 + count * 9 + types * 6]
    offsets = [struct.unpack(">l", table[6 * kind : 6 * kind + 4])[0] for kind in kinds]
    return [at for at, before, after in zip(times[1:], offsets, offsets[1:], strict=False) if before != after]
