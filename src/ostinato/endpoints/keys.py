"""API keys and the end of access, for admins."""

from typing import Annotated
from uuid import UUID

from ostinato.config.extras import need
from ostinato.core.access import AccessEnding, Role
from ostinato.endpoints.table import Ask, InPath, Table
from ostinato.shapes.access import (
    EndAll,
    EndBody,
    EndedAnswer,
    EndKey,
    EndName,
    EndToken,
    KeyAnswer,
    KeyBody,
    KeyList,
    NewKeyAnswer,
)
from ostinato.shapes.queries import ID, KeyQuery

TABLE = Table("keys")

KeyId = Annotated[UUID, InPath("id", "The id of a key.", ID)]


@TABLE.post("/keys", Role.ADMIN, status=201)
def create_key(ask: Ask, body: KeyBody) -> NewKeyAnswer:
    """Create an API key. Only this answer contains the key."""
    ask.headers["Cache-Control"] = "no-store"
    made = ask.service.keys.create(body.name, body.role, body.expires_in, by=ask.by.name, check=ask.check)
    return NewKeyAnswer.made(made)


@TABLE.get("/keys", Role.ADMIN)
def list_keys(ask: Ask, asked: KeyQuery) -> KeyList:
    """List all API keys, also revoked ones, the newest first."""
    return KeyList(keys=[KeyAnswer.of(row) for row in ask.service.keys.list(asked.limit, asked.before)])


@TABLE.delete("/keys/{id}", Role.ADMIN)
def revoke_key(ask: Ask, key_id: KeyId) -> KeyAnswer:
    """Revoke an API key. It stops working at once; its row stays and records the caller."""
    return KeyAnswer.of(ask.service.keys.revoke(key_id, by=ask.by.name))


@TABLE.post("/access/end", Role.ADMIN)
def end_access(ask: Ask, body: EndBody) -> EndedAnswer:
    """End access at once: sessions end too, and open streams stop within a second.

    New tokens are accepted if they were issued after `since`, which is five seconds from now.
    """
    return EndedAnswer.of(_end(ask, body))


def _end(ask: Ask, body: EndBody) -> AccessEnding:
    ends, by = ask.service.access, ask.by.name
    match body:
        case EndToken(token=token):
            need("server", "jwt", "A token")
            from ostinato.access.tokens import expiry_of  # imported late: the library of tokens

            return ends.end_token(*expiry_of(token), by=by)
        case EndName(name=name):
            return ends.end_name(name, by=by)
        case EndKey(key=key_id):
            return ends.end_key(key_id, by=by)
        case EndAll():
            return ends.end_all(by=by)
