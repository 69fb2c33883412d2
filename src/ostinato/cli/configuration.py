"""`ostinato config show`: the settings in effect, and their origins."""

from typing import Annotated

import typer

from ostinato.cli.output import Column, Listing, note, print_json, show

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
