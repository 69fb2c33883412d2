"""The OpenAPI document: the endpoints from FastAPI, with credentials and idempotency keys added."""

from typing import Any, Final

from fastapi import FastAPI

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
