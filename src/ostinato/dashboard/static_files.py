"""The stylesheet and the scripts, under addresses that change when they do: a browser may keep them for ever."""

import hashlib
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOR_EVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}


class Files:
    """Everything in one folder, read once."""

    def __init__(self, folder: Path) -> None:
        self._files = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in TYPES}
        self._marks = {name: hashlib.sha256(data).hexdigest()[:12] for name, data in self._files.items()}

    def url(self, name: str) -> str:
        return f"/static/{name}?v={self._marks[name]}"

    async def answer(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._files:
            return PlainTextResponse("There is no such file.", 404)
        kept = (
            FOR_EVER if request.query_params.get("v") == self._marks[name] else {"Cache-Control": "no-cache"}
        )
        return Response(self._files[name], media_type=TYPES[Path(name).suffix], headers=kept)
