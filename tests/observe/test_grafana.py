"""The Grafana dashboard: its metrics and labels are those of `/metrics`."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from ostinato.wiring import build_api
from tests.docs.pages import ROOT
from tests.observe.conftest import run
from tests.rest.conftest import NoEngine

BOARD = json.loads((ROOT / "deploy" / "grafana" / "ostinato.json").read_text())
METRIC = re.compile(r"\bostinato_[a-z_]+")
LABELS = re.compile(r"(ostinato_[a-z_]+)\{([^}]*)\}")
BY = re.compile(r"by \(([^)]*)\)")
OF_THE_SCRAPE = {"job", "le"}


def expressions() -> Iterator[str]:
    for panel in BOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def served(app) -> dict[str, Any]:
    """Return the families of `/metrics`, by the names that Prometheus stores."""
    run(app, "on_thread")
    text = TestClient(build_api(app.parts, app.scheduler, NoEngine()), base_url="http://localhost").get("/metrics").text
    found: dict[str, Any] = {}
    for family in text_string_to_metric_families(text):
        ends = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
        found |= {f"{family.name}{end}": family for end in ends}
    return found


def test_every_metric_of_the_dashboard_is_served(app):
    wanted = {name for each in expressions() for name in METRIC.findall(each)}
    assert wanted
    assert wanted - served(app).keys() == set()


def test_every_label_of_the_dashboard_is_documented():
    page = (ROOT / "docs" / "guides" / "monitoring.md").read_text()
    told = {
        name: set(filter(None, re.split(r",\s*", labels or "")))
        for name, labels in re.findall(r"`(ostinato_\w+)(?:\{([^}]*)\})?`", page)
    }
    for expression in expressions():
        grouped = {label.strip() for labels in BY.findall(expression) for label in labels.split(",")}
        names = METRIC.findall(expression)
        known = set().union(*(told.get(name.removesuffix("_bucket"), set()) for name in names))
        chosen = {label for _, body in LABELS.findall(expression) for label in re.findall(r"(\w+)=", body)}
        assert (grouped | chosen) - known - OF_THE_SCRAPE == set(), expression


@pytest.mark.parametrize("panel", BOARD["panels"], ids=lambda panel: panel["title"])
def test_a_panel_has_a_title_a_place_and_the_data_source_of_the_variable(panel):
    assert panel["title"]
    assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for target in panel.get("targets", ()):
        assert target["datasource"]["uid"] == "${datasource}"
        assert target["expr"].count("(") == target["expr"].count(")")


def test_panels_have_ids_of_their_own_and_do_not_overlap():
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    squares = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(squares) == len(set(squares))
