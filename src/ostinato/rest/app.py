"""The HTTP application: its routers and middleware."""

from collections.abc import Sequence

from fastapi import APIRouter, FastAPI

from ostinato.access.credentials import Recognise, anybody
from ostinato.access.requests import Workload
from ostinato.config import Settings
from ostinato.rest import document
from ostinato.rest.caller import OPEN, Authentication
from ostinato.rest.document import Api
from ostinato.rest.endpoints import routes_of
from ostinato.rest.failures import answer_errors
from ostinato.rest.middleware import BodyReader, ByMethod, NoSniff, Repeating, Working
from ostinato.rest.streams import Streams
from ostinato.service import Service


def create_app(
    service: Service,
    settings: Settings,
    *,
    recognise: Recognise = anybody,
    by_session: Recognise | None = None,
    routers: Sequence[APIRouter] = (),
    version: str = "",
) -> FastAPI:
    """Create the API of a service. `routers` are added to the table of endpoints, unchanged."""
    app = Api(
        title="Ostinato",
        version=version or "0",
        openapi_url=None,  # rest/document.py serves it, with the prefix of a mounted API
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={  # of FastAPI itself
            "tracing": settings.otel, "metrics": settings.otel, "logs": settings.otel, "operation_spans": False,
        },
    )  # fmt: skip
    app.state.service, app.state.settings, app.state.streams = service, settings, Streams(service)
    app.router.routes.extend(routes_of(service.features))
    for router in (document.router, *routers):
        app.router.routes.extend(router.routes)
    answer_errors(app)
    app.add_middleware(Repeating, repeats=service.repeats)
    app.state.workload = Workload()
    app.add_middleware(Working, workload=app.state.workload)
    app.add_middleware(BodyReader)
    app.add_middleware(ByMethod, routes=app.router.routes)
    # The middleware that is added last runs first.
    app.add_middleware(Authentication, recognise=recognise, open_paths=OPEN, by_session=by_session)
    app.add_middleware(NoSniff)
    return app
