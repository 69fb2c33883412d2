"""The delay between requests that robots.txt asks for."""

from __future__ import annotations

import pytest
from protego import Protego

from ostinato.features.crawling.robots import Rules


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("", 0),
        ("Crawl-delay: 5", 5),
        ("Crawl-delay: 0.5", 0.5),
        ("Request-rate: 1/10", 10),
        ("Crawl-delay: 5\nRequest-rate: 2/20", 10),
        ("Crawl-delay: 99999999", 60),
        ("Crawl-delay: -5", 0),
        ("Crawl-delay: soon", 0),
        ("Request-rate: 0/5", 0),
    ],
)
def test_the_pause_that_a_host_asks_for(said, seconds):
    assert Rules(Protego.parse(f"User-agent: *\n{said}\n")).delay("Ostinato") == seconds
