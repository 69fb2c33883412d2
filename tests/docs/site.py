"""The pages of the site in the order of the nav, and what `make docs` adds to the built site.

`make reference` writes docs/llms.txt, the index for language models. The site also has all pages as one text, and the
Markdown of each page beside its HTML.
"""

import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.docs.pages import BLOCK, ROOT

CONFIG = ROOT / "mkdocs.yml"
DOCS = ROOT / "docs"
INDEX = DOCS / "llms.txt"
FULL = "llms-full.txt"
COMMENT = re.compile(r"^<!-- .*? -->\n", re.M)
ANCHOR = re.compile(r'<a href="(\.\./[^"#]+)">(.*?)</a>', re.S)
NO_ADDRESS = "https://repository.invalid/"
NO_PROSE = ("#", "|", "-", "<", "!", ">")


class Place(NamedTuple):
    """A page in the nav: the titles above it, its own title, its path below docs/."""

    above: tuple[str, ...]
    title: str
    path: str


def places(nav: list[Any] | None = None, above: tuple[str, ...] = ()) -> Iterator[Place]:
    """Yield the pages of the nav in its order."""
    for entry in yaml.safe_load(CONFIG.read_text())["nav"] if nav is None else nav:
        for title, what in entry.items():
            if isinstance(what, str):
                yield Place(above, title, what)
            else:
                yield from places(what, (*above, title))


def summary(path: str) -> str:
    """Return the first sentence of a page, without links; empty if it does not begin with one."""
    text = COMMENT.sub("", BLOCK.sub("", (DOCS / path).read_text()))
    paragraphs = (" ".join(each.split()) for each in text.split("\n\n"))
    first = next((each for each in paragraphs if each and not each.startswith(NO_PROSE)), "")
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first).replace("**", "")
    return (re.match(r".*?[.!?](?= |$)", plain) or [plain.rstrip(":")])[0]


def llms() -> str:
    """Return the index for language models: each page with its first sentence."""
    config = yaml.safe_load(CONFIG.read_text())
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    part = None
    for place in places():
        if (named := " · ".join(place.above) or "Begin") != part:
            lines += ["", f"## {named}", ""]
            part = named
        told = summary(place.path)
        lines.append(f"- [{place.title}]({place.path})" + (f": {told}" if told else ""))
    return "\n".join([*lines, ""])


def llms_full() -> str:
    """Return all pages as one Markdown text, in the order of the nav."""
    texts = (
        f"<!-- {each.path} -->\n\n{COMMENT.sub('', (DOCS / each.path).read_text()).strip()}\n" for each in places()
    )
    return "\n".join(texts)


def repository() -> str:
    """Return the address of the files of a release, as pyproject.toml gives it to the README."""
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["metadata"]
    first = metadata["hooks"]["fancy-pypi-readme"]["substitutions"][0]["replacement"]
    return first.removeprefix("](").partition("v$HFPR_VERSION")[0]


def with_outer_links(page: Path, site: Path, base: str) -> str:
    """Lead links to files outside docs/ to the repository; without its address, leave their text."""

    def led(found: re.Match[str]) -> str:
        target = (page.parent / found[1]).resolve()
        if target.is_relative_to(site):
            return found[0]
        path = target.relative_to(site.parent)
        if base.startswith(NO_ADDRESS):
            return f'<span title="{path}">{found[2]}</span>'
        return f'<a href="{base}main/{path}">{found[2]}</a>'

    return ANCHOR.sub(led, page.read_text())


def complete(site: Path) -> None:
    """Put the texts for language models into a built site, and mend its links to files outside docs/."""
    site = site.resolve()
    for page in site.rglob("*.html"):
        page.write_text(with_outer_links(page, site, repository()))
    (site / FULL).write_text(llms_full())
    for place in places():
        (site / place.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(DOCS / place.path, site / place.path)


if __name__ == "__main__":
    if sys.argv[1:]:
        complete(Path(sys.argv[1]))
    else:
        INDEX.write_text(llms())
