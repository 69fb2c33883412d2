"""`/metrics` of a worker's probe: for those whom the REST API would admit as a viewer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from ostinato.access.credentials import recogniser
from ostinato.access.refusals import Refusal
from ostinato.config.extras import our_version
from ostinato.core.errors import Forbidden, Unauthorized
from ostinato.rest.exporter import PrometheusText
from ostinato.telemetry.reports import Counts

if TYPE_CHECKING:
    from ostinato.app.app import Ostinato
    from ostinato.engine.engine import Engine


class MetricsDoor:
    """Metrics of an engine, behind the auth of the settings. Threads call it."""

    def __init__(self, app: "Ostinato", engine: "Engine", *, on_loopback: bool) -> None:
        self._is_open = on_loopback or app.settings.auth_configured
        self._recognise, self._refused = recogniser(app.settings, app.scheduler), Counts()
        self._text = PrometheusText(app.scheduler, engine.measure(), our_version(), self._refused)

    def written(self, given: Sequence[tuple[str, str]]) -> tuple[bytes, str]:
        """Return the metrics and their content type; raise Unauthorized or Forbidden."""
        headers = Headers(raw=[(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in given])
        if not self._is_open:
            raise Forbidden("Without auth, /metrics answers only at 127.0.0.1. Set OSTINATO_AUTH_REQUIRED=on.")
        try:
            self._recognise(headers)  # each role may read
        except Unauthorized as error:
            self._refused.add("access_refused", Refusal.of(headers, str(error)).kind)
            raise
        return self._text.written(headers.get("accept", ""))
