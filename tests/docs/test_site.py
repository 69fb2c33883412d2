"""The site: built strictly, complete, and whole without a network."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from tests.docs.pages import ROOT
from tests.docs.site import (
    CONFIG,
    DOCS,
    FULL,
    INDEX,
    NO_ADDRESS,
    complete,
    llms,
    places,
    summary,
    with_outer_links,
)
from tests.waiting import PATIENCE

LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a folder as `make docs` does."""
    command = [Path(sys.executable).parent / "zensical", "build", "--clean", "--strict"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)


def copied(folder: Path) -> Path:
    shutil.copyfile(CONFIG, folder / CONFIG.name)
    shutil.copytree(DOCS, folder / DOCS.name)
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = copied(tmp_path_factory.mktemp("project"))
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    complete(folder / "site")
    return folder / "site"


class References(HTMLParser):
    """What a page of HTML loads, and where it leads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loaded: set[str] = set()
        self.linked: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if (address := given.get(LOADED.get(tag, ""))) and given.get("rel") not in ("next", "prev", "canonical"):
            self.loaded.add(address)
        if tag == "a" and "href" in given:
            self.linked.add(given["href"])


def missing(site: Path, page: Path, addresses: set[str]) -> list[str]:
    """List the addresses within the site that lead to no file."""
    lost = []
    for address in sorted(addresses):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc or not parts.path:
            continue
        target = (page.parent / unquote(parts.path)).resolve()
        if not target.is_relative_to(site) or not (target.is_file() or (target / "index.html").is_file()):
            lost.append(address)
    return lost


def html(site: Path) -> list[Path]:
    """List the pages; the one for errors has absolute links."""
    return [page for page in sorted(site.rglob("*.html")) if page.name != "404.html"]


def test_every_page_of_docs_is_in_the_nav_once():
    pages = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    assert sorted(place.path for place in places()) == sorted(pages)


def test_the_site_needs_no_plugin_beside_search():
    assert yaml.safe_load(CONFIG.read_text())["plugins"] == ["search"]


def test_the_built_site_is_not_committed():
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert f"{yaml.safe_load(CONFIG.read_text())['site_dir']}/" in ignored


def test_every_page_is_built(site):
    for place in places():
        page = site / place.path.removesuffix("index.md").removesuffix(".md") / "index.html"
        assert page.is_file(), place.path


def test_pages_load_nothing_from_elsewhere(site):
    for page in html(site):
        outside = [each for each in References(page).loaded if urlsplit(each).netloc]
        assert outside == [], page
    styles = "".join(file.read_text() for file in site.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//[^)\"']+", styles) == []


def test_links_within_the_site_lead_somewhere(site):
    for page in html(site):
        found = References(page)
        assert missing(site, page, found.loaded | found.linked) == [], page


def test_a_link_to_a_file_outside_the_site_leads_to_the_repository(tmp_path):
    page = tmp_path / "site" / "explanation" / "trust" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text('<a href="../../../tests/test_clock.py">clock</a> <a href="../time/">time</a>')
    site, inner = tmp_path / "site", ' <a href="../time/">time</a>'
    assert with_outer_links(page, site, NO_ADDRESS) == f'<span title="tests/test_clock.py">clock</span>{inner}'
    outer = '<a href="https://example.org/blob/main/tests/test_clock.py">clock</a>'
    assert with_outer_links(page, site, "https://example.org/blob/") == outer + inner


def test_every_page_can_be_searched(site):
    index = (site / "search.json").read_text()
    for place in places():
        address = place.path.removesuffix("index.md").removesuffix(".md")
        assert f'"{address}' in index, place.path


def test_lists_and_tables_are_not_taken_for_text(site):
    """GitHub reads a list right after a line of text; the site needs an empty line between."""
    for page in html(site):
        text = re.sub(r"<(pre|code)\b.*?</\1>", "", page.read_text(), flags=re.S)
        assert re.findall(r"^(?:- |\* |\d+\. |\|).*", text, re.M) == [], page


def test_a_broken_link_fails_the_build(tmp_path):
    folder = copied(tmp_path)
    with (folder / "docs" / "index.md").open("a") as page:
        page.write("\n[gone](gone.md)\n")
    assert build(folder).returncode != 0


# -- for language models


def test_the_index_for_language_models_is_that_of_the_nav():
    assert INDEX.read_text() == llms(), "run `make reference`"


def test_the_index_leads_to_the_markdown_of_each_page(site):
    links = re.findall(r"\]\(([^)]+)\)", (site / INDEX.name).read_text())
    assert [link for link in links if not (site / link).is_file()] == []
    assert len(links) == len(list(places()))


def test_the_full_text_has_every_page_in_the_order_of_the_nav(site):
    text = (site / FULL).read_text()
    assert re.findall(r"^<!-- (.+\.md) -->$", text, re.M) == [place.path for place in places()]
    assert "<!-- end -->" not in text
    assert "durable scheduler" in text


def test_a_summary_is_the_first_sentence_without_links():
    assert summary("index.md") == "A durable scheduler for recurring work in Python."
