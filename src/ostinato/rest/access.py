"""Endpoint that ends access, for admins: of a token, a name, a key, or all."""

from ostinato.access.tokens import expiry_of
from ostinato.core.access import AccessEnding
from ostinato.rest.caller import Admin
from ostinato.rest.dependencies import ServiceDep
from ostinato.rest.routers import api_router
from ostinato.service import Service
from ostinato.shapes.access import EndAll, EndBody, EndedAnswer, EndKey, EndName, EndToken

router = api_router("keys")


@router.post("/access/end")
def end_access(body: EndBody, service: ServiceDep, by: Admin) -> EndedAnswer:
    """End access at once: sessions end too, and open streams stop within a second.

    New tokens are accepted if they were issued after `since`, which is five seconds from now.
    """
    return EndedAnswer.of(_end(body, service, by.name))


def _end(body: EndBody, service: Service, by: str) -> AccessEnding:
    match body:
        case EndToken(token=token):
            return service.access.end_token(*expiry_of(token), by=by)
        case EndName(name=name):
            return service.access.end_name(name, by=by)
        case EndKey(key=key_id):
            return service.access.end_key(key_id, by=by)
        case EndAll():
            return service.access.end_all(by=by)
