"""The OpenAPI document of the endpoints, and `/docs`, the API in Swagger UI."""

from html import escape
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from swagger_ui_bundle import swagger_ui_path  # type: ignore[import-untyped]

from ostinato.access.mounting import root_of
from ostinato.core.errors import NotFound

SECURITY: Final = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A token or an API key",
    },
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
MAY_REPEAT: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A repeated request with the same key gets the first answer, for one day.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}


class Api(FastAPI):
    """A FastAPI application whose document also describes credentials and `Idempotency-Key`."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is not None:
            return self.openapi_schema
        document = super().openapi()
        document["components"]["securitySchemes"] = SECURITY
        document["security"] = [
            {"token": []},
            {"key": []},
            {},
        ]  # {}: without authentication, no credential is required
        for operations in document["paths"].values():
            if "post" in operations:
                operations["post"].setdefault("parameters", []).append(MAY_REPEAT)
        return document


# -- `/openapi.json`, and `/docs`: the API in Swagger UI. All files come from here; a strict policy forbids others

router = APIRouter(include_in_schema=False)

NULL: Final = {"type": "null"}
NULLABLE: Final = {"nullable": True, "enum": [None]}  # null, in version 3.0
FILES: Final = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "favicon-32x32.png": "image/png",
}
POLICY: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}
HTML: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Ostinato API</title>
<link rel="stylesheet" href="{root}/docs/swagger-ui.css">
<link rel="icon" type="image/png" href="{root}/docs/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="{root}/docs/swagger-ui-bundle.js"></script>
<script src="{root}/docs/begin.js" data-document="{root}/docs/openapi.json"></script>
</body>
</html>
"""
BEGIN: Final = """SwaggerUIBundle({
  url: document.currentScript.dataset.document, dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis], supportedSubmitMethods: ["get", "put", "post", "delete", "patch"]
});
"""


@router.get("/openapi.json")
def document(request: Request) -> JSONResponse:
    return JSONResponse(_document(request))


@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    return HTMLResponse(HTML.replace("{root}", escape(root_of(request.scope))), headers=POLICY)


@router.get("/docs/begin.js")
async def begin() -> Response:
    return Response(BEGIN, media_type="text/javascript", headers=POLICY)


@router.get("/docs/openapi.json")
def older_document(request: Request) -> JSONResponse:
    """Serve `/openapi.json` in version 3.0: Swagger UI supports no newer one."""
    return JSONResponse(_older(_document(request)) | {"openapi": "3.0.3"}, headers=POLICY)


@router.get("/docs/{name}")
async def file(name: str) -> FileResponse:
    if name not in FILES:
        raise NotFound("There is no such file.")
    return FileResponse(Path(swagger_ui_path) / name, media_type=FILES[name], headers=POLICY)


def _document(request: Request) -> dict[str, Any]:
    """Return the document, with the prefix of a mounted API as its server."""
    found: dict[str, Any] = request.app.openapi()
    root = root_of(request.scope)
    return {**found, "servers": [{"url": root}]} if root else found


def _older(value: Any) -> Any:
    """Convert OpenAPI 3.1 to 3.0, where "or null" is `nullable`, and a constant is an enum of one value."""
    if isinstance(value, list):
        return [_older(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: _older(each) for name, each in value.items()}
    if "const" in found:
        found["enum"] = [found.pop("const")]
    if isinstance(found.get("type"), list):
        found["anyOf"] = [{"type": kind} for kind in found.pop("type")]
    kinds = found.get("anyOf")
    if isinstance(kinds, list) and NULLABLE in kinds:
        others = [kind for kind in kinds if kind != NULLABLE]
        del found["anyOf"]
        found |= {"nullable": True} | (others[0] if len(others) == 1 else {"anyOf": others})
    return NULLABLE if found == NULL else found
