"""Answers that refresh until Ctrl-C: `--watch` and `ostinato top`."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from ostinato.cli.show import Shown, console, print_json
from ostinato.cli.verbs import Desk

PERIOD: Final = 2.0  # seconds


def live(desk: Desk, ask: Callable[[], Any], view: Callable[[Any], Shown], *, whole: bool = False) -> None:
    """Show the answer again and again: in place on a terminal, as one line of JSON each with `--json`."""
    with suppress(KeyboardInterrupt):  # the way to end it
        if desk.as_json:
            _lines(ask)
        else:
            _screen(ask, view, whole)


def _lines(ask: Callable[[], Any]) -> None:
    while True:
        print_json(ask(), indent=None)
        time.sleep(PERIOD)


def _screen(ask: Callable[[], Any], view: Callable[[Any], Shown], whole: bool) -> None:
    from rich.live import Live

    with Live(view(ask()), console=console(), screen=whole, auto_refresh=False) as screen:
        while True:
            screen.refresh()
            time.sleep(PERIOD)
            screen.update(view(ask()))
