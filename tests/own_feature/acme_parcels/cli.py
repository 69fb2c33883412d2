"""`ostinato parcel list`: the endpoint at the terminal, here or with `--server`."""

import typer

from ostinato.cli.output import Column, Listing
from ostinato.cli.verbs import ApiCalls, verb

parcel = typer.Typer(rich_markup_mode=None)
GROUPS = {"parcel": parcel}
COLUMNS = (Column("Address", lambda row: row["address"]), Column("Sent", lambda row: row["sent_at"]))


@parcel.command("list")
@verb
def list_parcels(api: ApiCalls) -> None:
    """List the parcels that were sent."""
    api.tell(api.get("/parcels"), lambda answer: Listing(COLUMNS, answer["parcels"], "No parcel was sent."))
