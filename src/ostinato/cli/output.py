"""Answers as text: tables that fit the terminal, facts in two columns, sentences; JSON for machines.

Names, errors and commands may hold any character: none reaches a terminal as a control sequence. Rich is imported
only when a table is shown.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import typer

from ostinato.cli.times import NO_TIME

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table
    from rich.text import Text

Answer = Mapping[str, Any]

COLOURS: Final = {
    "running": "cyan", "completed": "green", "failed": "red", "timed_out": "red", "lost": "red", "paused": "yellow",
    "cancelled": "dim", "queued": "magenta", "pending": "magenta", "ok": "green", "look": "yellow", "wrong": "red",
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

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        yield self._table(options.max_width) if self.rows else text(self.empty)

    def _table(self, width: int) -> "Table":
        from rich.table import Table

        columns = [column for column in self.columns if not column.spare or self._has_values(column)]
        cells = [[" ".join(plain(column.cell(row)).split()) for column in columns] for row in self.rows]
        widths = _fitting(columns, _widths(columns, cells), width)
        made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
        for place, given in widths.items():
            column = columns[place]
            made.add_column(
                column.title,
                justify="right" if column.right else "left",
                no_wrap=True,
                overflow="ellipsis",
                width=given,
            )
        for row in cells:
            made.add_row(*(text(row[place]) for place in widths))
        return made

    def _has_values(self, column: Column) -> bool:
        return any(plain(column.cell(row)) not in ("", NO_TIME) for row in self.rows)


def _widths(columns: Sequence[Column], cells: list[list[str]]) -> list[int]:
    from rich.cells import cell_len

    return [
        max(cell_len(each) for each in (column.title, *texts))
        for column, texts in zip(columns, zip(*cells, strict=True), strict=True)
    ]


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

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.table import Table

        made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_header=False)
        made.add_column(style="bold", no_wrap=True)
        made.add_column(overflow="fold")
        for name, value in self.facts.items():
            if value not in (None, "", NO_TIME, [], {}):
                made.add_row(name, text(plain(value)))
        yield made


@dataclass(frozen=True, slots=True)
class Sentences:
    """Lines of text."""

    lines: Sequence[str]

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        yield from (text(line) for line in self.lines)


@dataclass(frozen=True, slots=True)
class Several:
    """Parts, one below the other."""

    parts: Sequence["Shown"]

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        yield from self.parts


Shown = Listing | FactsTable | Sentences | Several


def console() -> "Console":
    """Return a console for standard output, as wide as the terminal; for a pipe, as wide as the text."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # as `typer.echo` does; Rich would end the program with an error

    edge = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Screen(highlight=False, markup=False, emoji=False, width=None if edge else ENDLESS)


def show(shown: Shown) -> None:
    console().print(shown, soft_wrap=True)  # the terminal wraps long sentences


def print_json(answer: object, indent: int | None = 2) -> None:
    """Print the answer of the API as JSON."""
    typer.echo(json.dumps(answer, indent=indent, ensure_ascii=False))


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


def text(words: str) -> "Text":
    """Return the words as Rich text; the name of a state has its colour."""
    from rich.text import Text

    return Text(plain(words), style=COLOURS.get(words, ""))
