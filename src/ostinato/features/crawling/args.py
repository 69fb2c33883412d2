"""`crawl`: visit a site and store its pages for searches."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from ostinato.config.extras import need
from ostinato.core.arguments import (
    URL,
    FieldKind,
    Flaw,
    arg,
    many,
    mapping,
    number,
    shown,
    span,
    switch,
    text,
    whole,
)
from ostinato.core.builtin import BuiltIn, Permits, refuse_private
from ostinato.core.errors import WrongArgument
from ostinato.features.crawling.urls import canonical, host_of

AGENT: Final = "Ostinato"
COLUMN: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule of a column: a CSS selector or an XPath; the first match, or all as a list."""

    css: str = ""
    xpath: str = ""
    all: bool = False


def _rule(value: Any) -> Rule:
    if isinstance(value, str):
        value = {"xpath": value} if value.startswith(("/", "(", "./")) else {"css": value}
    if not isinstance(value, dict) or value.keys() - {"css", "xpath", "all"}:
        raise Flaw(f'must be a CSS selector, an XPath, or {{"css": …, "all": true}}, not {shown(value)}.')
    css, xpath = value.get("css", ""), value.get("xpath", "")
    if not (isinstance(css, str) and isinstance(xpath, str)) or bool(css) == bool(xpath) or len(css + xpath) > 1000:
        raise Flaw("must have either css or xpath, of at most 1,000 characters.")
    return Rule(css, xpath, switch().read(value.get("all", False)))


def _host(value: Any) -> str:
    made = canonical(f"http://{value}/") if isinstance(value, str) and "/" not in value else None
    if made is None:
        raise Flaw(f"must be a host like www.example.org, without http:// and path, not {shown(value)}.")
    return host_of(made)


def _pattern(value: Any) -> str:
    pattern = text(500, empty=False).read(value)
    if not pattern.startswith(("/", "*", "http://", "https://")):
        raise Flaw(f"must begin with /, * or http, like /blog/ or /*.pdf$, not {shown(value)}.")
    return pattern


def _agent(value: Any) -> str:
    name = text(200, empty=False).read(value)
    if not name.isascii() or not name.isprintable():
        raise Flaw("must be one line of ASCII.")
    return name


RULE: Final = FieldKind({"anyOf": [{"type": "string"}, {"type": "object"}]}, _rule)
HOST: Final = FieldKind({"type": "string"}, _host)
PATTERN: Final = FieldKind({"type": "string", "minLength": 1, "maxLength": 500}, _pattern)
ONE_LINE: Final = FieldKind({"type": "string", "minLength": 1, "maxLength": 200}, _agent)
NAME: Final = text(255, empty=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlArgs:
    """The arguments of the task `crawl`."""

    url: str = arg(URL, "Start URL.")
    source_id: str | None = arg(NAME, "Your id of the site.", None)
    source_name: str | None = arg(NAME, "Name of the site for people.", None)
    start_urls: tuple[str, ...] = arg(many(URL, 1000), "More start URLs.", [])
    hosts: tuple[str, ...] = arg(
        many(HOST, 1000), "Hosts to visit besides those of the start URLs, such as docs.example.org.", []
    )
    allow: tuple[str, ...] = arg(
        many(PATTERN, 1000), "Visit only URLs that begin like one of these (* is anything, $ the end).", []
    )
    deny: tuple[str, ...] = arg(many(PATTERN, 1000), "Visit no URL that begins like one of these.", [])
    max_depth: int = arg(whole(0, 1000), "Maximum number of links from the start.", 10)
    max_pages: int = arg(whole(1, 10_000_000), "Maximum number of pages of one crawl.", 1000)
    max_mb: float = arg(number(0.001, 1_000_000), "Maximum number of megabytes of one crawl.", 1000)
    max_page_mb: float = arg(number(0.001, 100), "Maximum size of a page; a larger page is not stored.", 5)
    page_timeout: timedelta = arg(span("1s", "10m"), "Timeout of one page.", "30s")
    delay: timedelta = arg(
        span("0s", "1h"), "Minimum time between two requests to a host; robots.txt can ask for more.", "1s"
    )
    concurrency: int = arg(whole(1, 16), "Maximum number of requests to a host at once.", 2)
    robots: bool = arg(switch(), "Obey robots.txt. Turn this off for your own sites only.", True)
    sitemaps: bool = arg(switch(), "Look for pages in the sitemaps too.", True)
    user_agent: str = arg(ONE_LINE, "Name that the crawler sends as User-Agent.", AGENT)
    extract: Mapping[str, Rule] = arg(
        mapping(RULE, 100), "Columns to extract from each page: a CSS selector or an XPath for each.", {}
    )
    rest_up_to: timedelta | None = arg(
        span("1m", "366d"),
        "While nothing changes, skip due times: the pause doubles after each crawl, up to this.",
        None,
    )

    def __post_init__(self) -> None:
        for name in self.extract:
            if not COLUMN.fullmatch(name):
                raise Flaw("is not a name for a column: small letters, digits and _.", f"extract.{name[:100]}")


def _refuse(args: CrawlArgs, permits: Permits) -> None:
    refuse_private(args.url, "args.url", permits)
    for index, url in enumerate(args.start_urls):
        refuse_private(url, f"args.start_urls[{index}]", permits)
    for name, rule in args.extract.items():
        if (wrong := _unreadable(rule)) is not None:
            raise WrongArgument(f"args.extract.{name}", f"args.extract.{name} cannot be read: {wrong}.")


def _unreadable(rule: Rule) -> str | None:
    """Return the error that Scrapy's own library finds in a selector."""
    need("crawl", "parsel", "args.extract")
    from lxml import etree  # type: ignore[import-untyped]
    from parsel.csstranslator import HTMLTranslator

    try:
        etree.XPath(rule.xpath or HTMLTranslator().css_to_xpath(rule.css))
    except (etree.XPathError, SyntaxError, ValueError, TypeError) as error:
        return str(error).rstrip(".") or type(error).__name__
    return None


BUILT_INS: Final = (
    BuiltIn(
        "crawl",
        "Visit a site politely and store its pages for searches.",
        CrawlArgs,
        refuse=_refuse,
        subject=("source_name", "url"),
    ),
)
