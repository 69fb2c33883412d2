"""End access: of a token, a name, a key, or of all. For admins."""

from ostinato.access.tokens import expiry_of
from ostinato.api.caller import Admin
from ostinato.api.desk import Desk
from ostinato.api.routers import api_router
from ostinato.core.access import AccessEnding
from ostinato.scheduler import Scheduler
from ostinato.wire.access import EndAll, EndBody, EndedAnswer, EndKey, EndName, EndToken

router = api_router("keys")


@router.post("/access/end")
def end_access(body: EndBody, desk: Desk, by: Admin) -> EndedAnswer:
    """End access at once: sessions end too, and open streams fall silent within a second.

    New tokens are accepted if they were issued after `since`, five seconds from now.
    """
    return EndedAnswer.of(_end(body, desk, by.name))


def _end(body: EndBody, desk: Scheduler, by: str) -> AccessEnding:
    match body:
        case EndToken(token=token):
            return desk.access.end_token(*expiry_of(token), by=by)
        case EndName(name=name):
            return desk.access.end_name(name, by=by)
        case EndKey(key=key_id):
            return desk.access.end_key(key_id, by=by)
        case EndAll():
            return desk.access.end_all(by=by)
