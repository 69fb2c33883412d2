"""Commands without a database: `ostinato config show` and `ostinato preview`."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from ostinato.cli.output import Column, Listing, note, print_json, show
from ostinato.clock import SystemClock
from ostinato.config import Settings
from ostinato.core.errors import Invalid
from ostinato.core.schedule import Schedule, describe, parse_schedule
from ostinato.core.schedule import preview as due_times
from ostinato.core.times import wall_at, zone

# -- `ostinato config show`: the settings in effect, and their origins

config = typer.Typer(help="Settings: show.", rich_markup_mode=None)


@config.command("show")
def show_settings(
    origin: Annotated[bool, typer.Option("--origin", help="Show the origin of each value.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print only JSON.")] = False,
) -> None:
    """Show all settings in effect; secrets are masked."""
    from ostinato.config import SETTINGS, Settings

    settings = Settings.load()
    values = settings.shown()
    rows = [
        {
            "name": each.name,
            "value": values[each.name],
            "origin": settings.origins[each.name],
            "env": each.env,
        }
        for each in SETTINGS
    ]
    for warning in settings.warnings:
        note(warning)
    if as_json:
        shown = ("value", "origin", "env") if origin else ("value",)
        print_json({row["name"]: {name: row[name] for name in shown} for row in rows})
        return
    columns = [
        Column("Setting", lambda row: row["name"]),
        Column("Value", lambda row: row["value"], cut=True),
    ]
    if origin:
        columns.append(Column("Origin", lambda row: row["origin"], cut=True))
        columns.append(Column("Variable", lambda row: row["env"], spare=1))
    show(Listing(columns, rows, ""))


# -- `ostinato preview`: the next due times of a schedule

MOST_TIMES = 1000


def preview(text: str, timezone: str | None, after: str | None, count: int, as_json: bool) -> None:
    """Print the next due times. An interval starts at `after`, as if the job were created then."""
    if not 1 <= count <= MOST_TIMES:
        raise Invalid(f"-n is a number from 1 to {MOST_TIMES}, not {count}.")
    timezone = zone(timezone or Settings.load().timezone).key
    begin = _instant(after) if after is not None else SystemClock().now().replace(microsecond=0)
    schedule = parse_schedule(text, timezone)
    times = due_times(schedule, begin, begin, count)
    if as_json:
        typer.echo(json.dumps([_utc(at) for at in times]))
    else:
        _show(schedule, timezone, times)


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"--after {text[:60]!r} is not an instant; write it like 2026-11-16T09:00:00Z.") from None
    if at.utcoffset() is None:
        raise Invalid(f"--after {text} has no time zone; end it with Z (UTC) or an offset like +02:00.")
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise Invalid(f"--after {text} goes beyond the calendar.") from None


def _utc(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _show(schedule: Schedule, timezone: str, times: Sequence[datetime]) -> None:
    from rich.console import Console
    from rich.table import Table

    sentence = describe(schedule)
    typer.echo(f"{sentence[:1].upper()}{sentence[1:]}.")
    if not times:
        typer.echo("No due times after that.")
        return
    table = Table(box=None, pad_edge=False)
    for column in (timezone, "UTC") if timezone != "UTC" else ("UTC",):
        table.add_column(column, no_wrap=True)
    for at in times:
        cells = [_wall(at, timezone)] if timezone != "UTC" else []
        table.add_row(*cells, _utc(at))
    Console().print(table)


def _wall(at: datetime, timezone: str) -> str:
    return f"{wall_at(at, zone(timezone)):%a %Y-%m-%d %H:%M:%S}"
