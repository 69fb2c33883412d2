"""Charts contain no styles and no scripts, and escape their input."""

from datetime import timedelta

import pytest

from ostinato.dashboard import charts
from ostinato.dashboard.charts import Bar, Dot, Phase, Scatter

EVIL = "\"'><script>alert(1)</script>"
SECOND = timedelta(seconds=1)
DRAWN = {
    "bars": charts.bars([Bar([("completed", 3), ("failed", 1)], EVIL), Bar([], EVIL, is_known=False)], EVIL),
    "spark": charts.spark([Dot(kind, SECOND, EVIL) for kind in ("completed", "failed", "skipped", "running")]),
    "no runs": charts.spark([]),
    "scatter": charts.scatter(
        Scatter([Dot("completed", n * SECOND, EVIL) for n in (1, 2, 90)], SECOND, 9 * SECOND), EVIL
    ),
    "phases": charts.phases([Phase("ran", EVIL, SECOND), Phase("queued", EVIL, 0 * SECOND)]),
    "meter": charts.meter(1.5, EVIL),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_chart_is_plain_svg(name):
    drawn = DRAWN[name]
    assert drawn.startswith("<svg")
    assert "<script" not in drawn
    assert "style" not in drawn
    assert "aria-label" in drawn


def test_what_ended_differently_has_another_shape_not_only_another_colour():
    shapes = {charts.spark([Dot(kind, SECOND, "")]).replace(kind, "") for kind in ("completed", "failed", "skipped")}
    assert len({shape.replace("1 of the last 1", "0 of the last 1") for shape in shapes}) == 3


def test_one_that_took_far_longer_stands_out():
    assert DRAWN["scatter"].count("is-far") == 1


def test_bars_are_as_high_as_the_highest():
    drawn = charts.bars([Bar([("completed", 10)], ""), Bar([("completed", 5)], "")], "x")
    assert 'height="100.00"' in drawn
    assert 'height="50.00"' in drawn
