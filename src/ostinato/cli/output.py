"""Answers as text: tables that fit the terminal, facts in two columns, sentences; JSON for machines.

Names, errors and commands may hold any character: none reaches a terminal as a control sequence. Tables are drawn
here, because the import of Rich takes as long as the rest of an everyday command.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from shutil import get_terminal_size
from typing import Any, Final
from unicodedata import category, east_asian_width

import typer

from ostinato.core.times import DAY, HOUR, MINUTE, SECOND

# -- Text of instants and durations: relative and absolute, in the local time zone

STEPS: Final = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"))
NO_TIME: Final = "–"


def when(text: str | None, now: datetime) -> str:
    """Return an instant of an answer as `in 12 min, 18:30`."""
    if text is None:
        return NO_TIME
    at = instant(text)
    return f"{relative(at - now)}, {absolute(at, now)}"


def instant(text: str) -> datetime:
    """Read an instant of an answer, in the local time zone."""
    return datetime.fromisoformat(text).astimezone()


def relative(distance: timedelta) -> str:
    """Return `in 5 min`, `2 h ago` or `now`."""
    if abs(distance) < SECOND:
        return "now"
    size = roughly(abs(distance))
    return f"in {size}" if distance > timedelta() else f"{size} ago"


def roughly(length: timedelta) -> str:
    """Return a duration in its largest whole unit, such as `3 d` or `5 min`."""
    for unit, name in STEPS:
        if length >= unit:
            return f"{length // unit} {name}"
    return "0 s"


def absolute(at: datetime, now: datetime) -> str:
    """Return the time; add the day unless it is today, and the year unless it is this year."""
    at, now = at.astimezone(), now.astimezone()
    if at.date() == now.date():
        return f"{at:%H:%M:%S}"
    return f"{at:%b %d %H:%M}" if at.year == now.year else f"{at:%Y-%m-%d %H:%M}"


def at_length(text: str | None, now: datetime) -> str:
    """Return an instant in its long form: `2026-11-16 18:30:00 CET (in 12 min)`."""
    if text is None:
        return NO_TIME
    at = instant(text)
    return f"{at:%Y-%m-%d %H:%M:%S} {at.tzname()} ({relative(at - now)})"


def took(milliseconds: float | None) -> str:
    """Return a duration as text."""
    if milliseconds is None:
        return NO_TIME
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"


# -- Answers as text: tables that fit the terminal, facts in two columns, sentences; JSON for machines

Answer = Mapping[str, Any]

Paint = Callable[[str, str | None], str]  # shows a text in a style

BOLD, DIM, RED, GREEN, YELLOW, MAGENTA, CYAN = "1", "2", "31", "32", "33", "35", "36"
COLOURS: Final = {
    "running": CYAN, "completed": GREEN, "failed": RED, "timed_out": RED, "lost": RED, "paused": YELLOW,
    "cancelled": DIM, "queued": MAGENTA, "pending": MAGENTA, "ok": GREEN, "look": YELLOW, "wrong": RED,
}  # fmt: skip
GAP: Final = 2  # between columns
NARROWEST: Final = 8  # characters that a cut column keeps at least
ENDLESS: Final = 10_000  # characters: the width of a pipe


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its title and cells. In a narrow terminal, columns with the greatest `spare` go first."""

    title: str
    cell: Callable[[Answer], object]
    spare: int = 0
    cut: bool = False  # may be shortened when the terminal is narrow
    right: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """A table that fits the terminal: spare columns are left out first, then cut columns are shortened."""

    columns: Sequence[Column]
    rows: Sequence[Answer]
    empty: str  # the sentence instead of a table without rows

    def lines(self, width: int, paint: Paint) -> Iterator[str]:
        if not self.rows:
            yield self.empty
            return
        columns = [column for column in self.columns if not column.spare or self._has_values(column)]
        cells = [[" ".join(plain(column.cell(row)).split()) for column in columns] for row in self.rows]
        widths = _fitting(columns, _widths(columns, cells), width)
        yield _line(
            [(columns[n].title, columns[n].right, size) for n, size in widths.items()], lambda text: BOLD, paint
        )
        for row in cells:
            yield _line([(row[n], columns[n].right, size) for n, size in widths.items()], COLOURS.get, paint)

    def _has_values(self, column: Column) -> bool:
        return any(plain(column.cell(row)) not in ("", NO_TIME) for row in self.rows)


def _line(cells: Sequence[tuple[str, bool, int]], style: Callable[[str], str | None], paint: Paint) -> str:
    """Return a line of cells: their text, whether it stands on the right, and the width of the column."""
    parts = []
    for words, right, size in cells:
        shown = _cut(words, size)
        space = " " * (size - cell_width(shown))
        parts.append(space + paint(shown, style(words)) if right else paint(shown, style(words)) + space)
    return (" " * GAP).join(parts).rstrip()


def _widths(columns: Sequence[Column], cells: list[list[str]]) -> list[int]:
    return [
        max(cell_width(each) for each in (column.title, *texts))
        for column, texts in zip(columns, zip(*cells, strict=True), strict=True)
    ]


def _cut(words: str, width: int) -> str:
    """Shorten a text to a width."""
    return words if cell_width(words) <= width else next(_folded(words, max(width - 1, 1)), "") + "…"


def _folded(words: str, width: int) -> Iterator[str]:
    """Break a line into parts of a width."""
    part, size = "", 0
    for character in words:
        wide = cell_width(character)
        if size + wide > width and part:
            yield part
            part, size = "", 0
        part, size = part + character, size + wide
    yield part


def cell_width(words: str) -> int:
    """Return the number of cells that a text takes on a terminal."""
    return len(words) if words.isascii() else sum(map(_character_width, words))


def _character_width(character: str) -> int:
    if category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def _fitting(columns: Sequence[Column], widths: Sequence[int], room: int) -> dict[int, int]:
    """Return the indexes of the columns that fit, each with its width."""
    given = dict(enumerate(widths))

    def too_much(least: int) -> int:
        sizes = (min(size, least) if columns[n].cut else size for n, size in given.items())
        return sum(sizes) + GAP * (len(given) - 1) - room

    while too_much(NARROWEST) > 0 and any(columns[n].spare for n in given):
        del given[max(given, key=lambda n: columns[n].spare)]
    while too_much(ENDLESS) > 0 and (long := [n for n in given if columns[n].cut and given[n] > NARROWEST]):
        given[max(long, key=given.__getitem__)] -= 1  # the widest first
    return given


@dataclass(frozen=True, slots=True)
class FactsTable:
    """Facts about one thing: names on the left, values on the right. Empty values are left out."""

    facts: Mapping[str, object]

    def lines(self, width: int, paint: Paint) -> Iterator[str]:
        facts = {name: plain(value) for name, value in self.facts.items() if value not in (None, "", NO_TIME, [], {})}
        first = max(map(cell_width, facts), default=0)
        for name, words in facts.items():
            head = paint(name, BOLD) + " " * (first - cell_width(name) + GAP)
            for line in words.split("\n"):
                for part in _folded(line, max(width - first - GAP, NARROWEST)):
                    yield (head + paint(part, COLOURS.get(words))).rstrip()
                    head = " " * (first + GAP)


@dataclass(frozen=True, slots=True)
class Sentences:
    """Lines of text."""

    said: Sequence[str]

    def lines(self, width: int, paint: Paint) -> Iterator[str]:
        """Yield each line whole: the terminal wraps long sentences."""
        yield from (paint(plain(line), COLOURS.get(line)) for line in self.said)


@dataclass(frozen=True, slots=True)
class Several:
    """Parts, one below the other."""

    parts: Sequence["Shown"]

    def lines(self, width: int, paint: Paint) -> Iterator[str]:
        for part in self.parts:
            yield from part.lines(width, paint)


Shown = Listing | FactsTable | Sentences | Several


def screen() -> tuple[int, Paint]:
    """Return the width of standard output, and its way to show colours. A pipe is as wide as the text."""
    if not sys.stdout.isatty():
        return (get_terminal_size().columns if "COLUMNS" in os.environ else ENDLESS), in_black
    coloured = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return get_terminal_size().columns, in_colour if coloured else in_black


def in_black(words: str, style: str | None) -> str:
    """Leave the colours out."""
    return words


def in_colour(words: str, style: str | None) -> str:
    """Add the control sequences of a colour."""
    return words if style is None else f"\x1b[{style}m{words}\x1b[0m"


def show(shown: Shown) -> None:
    _print("\n".join(shown.lines(*screen())))


def print_json(answer: object, indent: int | None = 2) -> None:
    """Print the answer of the API as JSON."""
    _print(json.dumps(answer, indent=indent, ensure_ascii=False))


def _print(text: str) -> None:
    """Print on stdout. A reader that has closed the pipe, such as `head`, is no error, as it is for Typer."""
    try:
        typer.echo(text)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit from None


def note(sentence: str) -> None:
    """Print a remark on stderr; stdout holds only the answer."""
    typer.echo(plain(sentence), err=True)


def plain(value: object) -> str:
    """Return a value as text without control characters."""
    match value:
        case None:
            return NO_TIME
        case bool():
            return "yes" if value else "no"
        case dict() | list():
            words = json.dumps(value, ensure_ascii=False)
        case _:
            words = str(value)
    return words if words.isprintable() else "".join(map(_harmless, words))


def _harmless(character: str) -> str:
    return character if character.isprintable() or character in "\n\t" else repr(character)[1:-1]


# -- Progress bar of long work, on stderr of a terminal

Advance = Callable[[int, int], None]  # takes the amount done and the total


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
