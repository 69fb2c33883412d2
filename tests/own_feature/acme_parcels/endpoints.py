"""`GET /api/v1/parcels`."""

from datetime import datetime

from acme_parcels.rows import Parcels
from ostinato.core.access import Role
from ostinato.endpoints.table import Ask, Table
from ostinato.shapes.answers import Answer, JsonObject

TABLE = Table("parcels")


class ParcelAnswer(Answer):
    address: str
    sent_at: datetime


class ParcelList(JsonObject):
    parcels: list[ParcelAnswer]


@TABLE.get("/parcels", Role.VIEWER)
def list_parcels(ask: Ask) -> ParcelList:
    """List the parcels that were sent."""
    return ParcelList(parcels=[ParcelAnswer.of(each) for each in ask.service.store.part(Parcels).all()])
