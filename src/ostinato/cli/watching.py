"""Answers that refresh until Ctrl-C: `--watch` and `ostinato top`."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from ostinato.cli.output import Shown, print_json, screen
from ostinato.cli.verbs import ApiCalls

PERIOD: Final = 2.0  # seconds


def live(api: ApiCalls, ask: Callable[[], Any], view: Callable[[Any], Shown], *, whole: bool = False) -> None:
    """Show the answer every two seconds: in place on a terminal, or as lines of JSON with `--json`."""
    with suppress(KeyboardInterrupt), _remembered_interrupt() as check:  # Ctrl-C is the way to quit

        def asked() -> Any:
            answer = ask()
            check()
            return answer

        if api.as_json:
            _lines(asked)
        else:
            _screen(asked, view, whole)


@contextmanager
def _remembered_interrupt() -> Iterator[Callable[[], None]]:
    """Remember Ctrl-C, and yield a function that raises it again.

    SQLite drops an exception that is raised inside its callbacks: one interrupt in eight during a query was lost.
    """
    interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    def check() -> None:
        if interrupted:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield check
    except Exception:
        check()  # the interrupt may be the cause of the failure
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def _lines(ask: Callable[[], Any]) -> None:
    while True:
        print_json(ask(), indent=None)
        time.sleep(PERIOD)


def _screen(ask: Callable[[], Any], view: Callable[[Any], Shown], whole: bool) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    def drawn() -> Text:
        return Text.from_ansi("\n".join(view(ask()).lines(*screen())))

    with Live(drawn(), console=Console(highlight=False), screen=whole, auto_refresh=False) as live:
        while True:
            live.refresh()
            time.sleep(PERIOD)
            live.update(drawn())
